"""What the samplers of a scenario read: one reading a second, healthy unless a gauge says otherwise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from traintrace.readings import DeviceReading, ProcessReading, SystemReading

GB: Final = 2**30
_SECOND_NS: Final = 1_000_000_000
# A number, or one that depends on the part of the run that is over, 0 to 1.
Gauge: TypeAlias = float | Callable[[float], float]


def _none(done: float) -> str:
    del done
    return ""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Values by name of a reading's field; shares of the interval where the field is a time.

    Attributes:
        system, process, device: Of every rank. of_rank: gauges of single ranks, by rank and then
            by name; they hold for process and device alike.
        throttle_reasons: Of every device.
    """

    system: Mapping[str, Gauge] = field(default_factory=dict)
    process: Mapping[str, Gauge] = field(default_factory=dict)
    device: Mapping[str, Gauge] = field(default_factory=dict)
    of_rank: Mapping[int, Mapping[str, Gauge]] = field(default_factory=dict)
    throttle_reasons: Callable[[float], str] = _none


_SYSTEM: Final[Mapping[str, Gauge]] = {
    "cpu_cores": 7.0,
    "cpu_count": 32,
    "load_1min": 7.5,
    "ram_used_bytes": 60 * GB,
    "ram_total_bytes": 256 * GB,
    "disk_read_bytes": 40e6,
    "disk_write_bytes": 1e6,
    "network_received_bytes": 2e5,
    "network_sent_bytes": 2e5,
}
_PROCESS: Final[Mapping[str, Gauge]] = {
    "cpu_cores": 3.6,
    "workers_cpu_cores": 1.1,
    "workers": 2,
    "allowed_cores": 32.0,
    "threads": 24,
    "rss_bytes": 3 * GB,
    "workers_rss_bytes": 2 * GB,
    "run_queue_ns": 0.004,
    "on_cpu_ns": 0.93,
    "involuntary_switches": 20,
    "voluntary_switches": 180,
    "throttled_ns": 0.0,
}
_DEVICE: Final[Mapping[str, Gauge]] = {
    "utilisation": 0.94,
    "memory_used_bytes": 48 * GB,
    "memory_total_bytes": 80 * GB,
    "power_w": 480.0,
    "power_limit_w": 700.0,
    "temperature_c": 62.0,
    "slowdown_temperature_c": 90.0,
    "sm_clock_mhz": 1_950.0,
    "sm_clock_max_mhz": 1_980.0,
}
_SHARES: Final = ("run_queue_ns", "on_cpu_ns", "throttled_ns")
_SINCE_BEFORE: Final = (
    "cpu_cores", "workers_cpu_cores", "run_queue_ns", "on_cpu_ns", "throttled_ns",
    "involuntary_switches", "voluntary_switches", "disk_read_bytes", "disk_write_bytes",
    "network_received_bytes", "network_sent_bytes",
)  # fmt: skip
_WHOLE: Final = ("_bytes", "_ns", "_count", "switches", "workers", "threads")


def system_of(gauges: Gauges, start_ns: int, length_s: float) -> tuple[SystemReading, ...]:
    """Give the readings of a node."""
    values = {**_SYSTEM, **gauges.system}
    return tuple(
        SystemReading(at_ns=at, interval_ns=interval, **_read(values, done, interval, 1))  # type: ignore[arg-type]  # fields by name
        for at, done, interval in _moments(start_ns, length_s)
    )


def process_of(
    gauges: Gauges, rank: int, start_ns: int, length_s: float
) -> tuple[ProcessReading, ...]:
    """Give the readings of one rank's process."""
    values = {**_PROCESS, **gauges.process, **_own(gauges, rank, _PROCESS)}
    return tuple(
        ProcessReading(at_ns=at, interval_ns=interval, **_read(values, done, interval, 2 + rank))  # type: ignore[arg-type]  # fields by name
        for at, done, interval in _moments(start_ns, length_s)
    )


def devices_of(
    gauges: Gauges, rank: int, device: int, start_ns: int, length_s: float
) -> tuple[DeviceReading, ...]:
    """Give the readings of the device that one rank uses."""
    values = {**_DEVICE, **gauges.device, **_own(gauges, rank, _DEVICE)}
    return tuple(
        DeviceReading(
            at_ns=at,
            device=device,
            throttle_reasons=gauges.throttle_reasons(done),
            **_read(values, done, interval, 100 + rank),  # type: ignore[arg-type]  # fields by name
        )
        for at, done, interval in _moments(start_ns, length_s)
    )


def _own(gauges: Gauges, rank: int, known: Mapping[str, Gauge]) -> dict[str, Gauge]:
    return {name: v for name, v in gauges.of_rank.get(rank, {}).items() if name in known}


def _moments(start_ns: int, length_s: float) -> list[tuple[int, float, int | None]]:
    """Give moment, part of the run that is over, and time since the reading before."""
    count = max(1, int(length_s))
    return [
        (start_ns + index * _SECOND_NS, index / count, _SECOND_NS if index else None)
        for index in range(count)
    ]


def _read(
    values: Mapping[str, Gauge], done: float, interval: int | None, seed: int
) -> dict[str, float | int | None]:
    wobble = 1.0 + 0.01 * np.sin(37.0 * done * (1 + seed) + seed)
    read: dict[str, float | int | None] = {}
    for name, gauge in values.items():
        if interval is None and name in _SINCE_BEFORE:
            read[name] = None
            continue
        value = gauge(done) if callable(gauge) else gauge
        if not name.endswith(("_total_bytes", "_count", "_limit_w", "_max_mhz", "workers")) and (
            name not in ("allowed_cores", "slowdown_temperature_c", "threads")
        ):
            value *= wobble
        if name in _SHARES:
            value *= interval or 0
        if name == "utilisation":
            value = min(1.0, value)
        read[name] = round(value) if name.endswith(_WHOLE) else float(value)
    return read
