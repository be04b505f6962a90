"""What the samplers would have read during a drafted run."""

from dataclasses import dataclass

import numpy as np

from benchmarks.corpus.draft import Draft, Machine
from traintrace.readings import DeviceReading, ProcessReading, SystemReading
from traintrace_analysis.step_window import Floats

_MOST_READINGS = 200


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings of one rank in time order."""

    system: tuple[SystemReading, ...]
    process: tuple[ProcessReading, ...]
    devices: tuple[DeviceReading, ...]


def read_machine(draft: Draft, row: int, start_ns: int, wall_ns: int) -> Readings:
    """Read the machine at fixed intervals; node-wide values by the first rank of each node only."""
    machine = draft.machine
    interval_ns = int(max(machine.interval_s, wall_ns / 1e9 / _MOST_READINGS) * 1e9)
    moments = np.arange(interval_ns, wall_ns, interval_ns, dtype=np.int64)
    if not len(moments):
        return Readings((), (), ())
    clock = _Course(machine, draft.chance, moments / wall_ns)
    at = [start_ns + int(moment) for moment in moments]
    nodes = draft.nodes or (0,) * draft.ranks
    leads = nodes.index(nodes[row]) == row
    return Readings(
        system=_system(machine, clock, at, interval_ns) if leads else (),
        process=_process(machine, clock, at, interval_ns),
        devices=_device(machine, clock, at, row),
    )


class _Course:
    """Draws each reading of one value around its course."""

    def __init__(self, machine: Machine, chance: np.random.Generator, places: Floats) -> None:
        self._noise = machine.noise
        self._chance = chance
        self.places = places

    def read(
        self, course: tuple[float, float] | None, most: float = np.inf, *, calm: bool = False
    ) -> list[float] | list[None]:
        """Read a value; memory is `calm`: a tenth of the noise."""
        if course is None:
            return [None] * len(self.places)
        middle = course[0] + (course[1] - course[0]) * self.places
        spread = self._noise * (0.1 if calm else 1.0)
        noise = 1.0 + spread * self._chance.standard_normal(len(self.places))
        values: list[float] = np.clip(middle * noise, 0.0, most).tolist()
        return values

    def happens(self, share: float) -> list[bool]:
        drawn: list[bool] = (self._chance.random(len(self.places)) < share).tolist()
        return drawn


def _system(
    machine: Machine, course: _Course, at: list[int], interval_ns: int
) -> tuple[SystemReading, ...]:
    if machine.node_cpu_share is None and machine.ram_share is None:
        return ()
    busy, ram = (
        course.read(machine.node_cpu_share, 1.0),
        course.read(machine.ram_share, 1.0, calm=True),
    )
    return tuple(
        SystemReading(
            at_ns=moment,
            interval_ns=interval_ns if number else None,
            cpu_cores=None if share is None or not number else share * machine.cpu_count,
            cpu_count=machine.cpu_count,
            load_1min=None if share is None else share * machine.cpu_count,
            ram_used_bytes=None if used is None else int(used * machine.ram_bytes),
            ram_total_bytes=machine.ram_bytes,
        )
        for number, (moment, share, used) in enumerate(zip(at, busy, ram, strict=True))
    )


def _process(
    machine: Machine, course: _Course, at: list[int], interval_ns: int
) -> tuple[ProcessReading, ...]:
    if machine.cpu_cores is None:
        return ()
    cores = course.read(machine.cpu_cores)
    rss = course.read(machine.rss_share, 1.0, calm=True)
    queued = course.read((machine.run_queue_share, machine.run_queue_share))
    lost = course.read((machine.involuntary_per_s, machine.involuntary_per_s))
    seconds = interval_ns / 1e9
    return tuple(
        ProcessReading(
            at_ns=moment,
            interval_ns=interval_ns if number else None,
            cpu_cores=used if number else None,
            workers_cpu_cores=machine.workers_cpu_cores if number else None,
            workers=0 if machine.workers_cpu_cores == 0.0 else 4,
            allowed_cores=machine.allowed_cores,
            threads=machine.threads,
            rss_bytes=None if held is None else int(held * machine.ram_bytes * 0.8),
            workers_rss_bytes=None if held is None else int(held * machine.ram_bytes * 0.2),
            run_queue_ns=int((wait or 0.0) * interval_ns) if number else None,
            on_cpu_ns=int(max(0.0, 0.9 - (wait or 0.0)) * interval_ns) if number else None,
            involuntary_switches=int((switches or 0.0) * seconds) if number else None,
            voluntary_switches=int(50 * seconds) if number else None,
            throttled_ns=int(machine.throttled_share * interval_ns) if number else None,
        )
        for number, (moment, used, held, wait, switches) in enumerate(
            zip(at, cores, rss, queued, lost, strict=True)
        )
    )


def _device(
    machine: Machine, course: _Course, at: list[int], row: int
) -> tuple[DeviceReading, ...]:
    if machine.utilisation is None:
        return ()
    busy = course.read(machine.utilisation, 1.0)
    memory = course.read(machine.device_memory_share.get(row), 1.0, calm=True)
    power = course.read(machine.power_share)
    heat = course.read(machine.temperature_c, calm=True)
    clock, held_back = course.read(machine.clock_share, 1.0), course.happens(machine.throttle_share)
    return tuple(
        DeviceReading(
            at_ns=moment,
            device=row,
            utilisation=used,
            memory_used_bytes=None if held is None else int(held * machine.device_memory_bytes),
            memory_total_bytes=machine.device_memory_bytes,
            power_w=None if draw is None else draw * 400.0,
            power_limit_w=400.0,
            temperature_c=warm,
            slowdown_temperature_c=machine.slowdown_temperature_c,
            sm_clock_mhz=None
            if rate is None
            else (machine.throttled_clock_share if slowed else rate) * 1980.0,
            sm_clock_max_mhz=1980.0,
            throttle_reasons=machine.throttle_reasons if slowed else "",
        )
        for moment, used, held, draw, warm, rate, slowed in zip(
            at, busy, memory, power, heat, clock, held_back, strict=True
        )
    )
