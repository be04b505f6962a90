"""Sum up the readings of the machine and of the processes."""

from collections.abc import Iterable, Sequence

import numpy as np

from traintrace.facts import RankFacts
from traintrace.readings import DeviceReading, Reading
from traintrace_analysis.machine import (
    DeviceSummary,
    Memory,
    NodeSummary,
    ProcessSummary,
    RankProcess,
    SystemSummary,
    Worst,
)
from traintrace_analysis.reading_columns import (
    AnyReading,
    by_device,
    column,
    largest,
    mean,
    of_steady_steps,
    quotients,
    row_peaks,
)
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.throttling import held_back

_NS_PER_S = 1e9


def measure_memory(window: StepWindow) -> Memory | None:
    """Give the largest memory readings over ranks and window; None if there are none."""
    peaks = {
        name: _by_rank(window, name)
        for name in ("rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
    }
    if not any(peaks.values()):
        return None
    rss = window.memory.get("rss_bytes")
    worst = {name: _worst(one.items()) for name, one in peaks.items()}
    most = {name: None if one is None else int(one.value) for name, one in worst.items()}
    rank = {name: None if one is None else one.rank for name, one in worst.items()}
    return Memory(
        rss_max_bytes=most["rss_bytes"],
        rss_last_bytes=None if rss is None else _integer(largest(rss[:, -1])),
        peak_allocated_max_bytes=most["peak_allocated_bytes"],
        peak_reserved_max_bytes=most["peak_reserved_bytes"],
        rss_by_rank=peaks["rss_bytes"],
        peak_allocated_by_rank=peaks["peak_allocated_bytes"],
        peak_reserved_by_rank=peaks["peak_reserved_bytes"],
        rss_max_rank=rank["rss_bytes"],
        peak_allocated_max_rank=rank["peak_allocated_bytes"],
        peak_reserved_max_rank=rank["peak_reserved_bytes"],
    )


def summarise_system(window: StepWindow, ranks: Sequence[RankFacts]) -> SystemSummary | None:
    """Sum up nodes and devices; None if nothing was read of either."""
    nodes = [_node(window, rank) for rank in ranks if rank.system]
    devices = [
        _device(window, rank, device, readings)
        for rank in ranks
        for device, readings in sorted(by_device(rank.devices).items())
    ]
    if not nodes and not devices:
        return None
    full = {
        one.rank: one.memory_used_max_bytes / one.memory_total_bytes
        for one in devices
        if one.memory_used_max_bytes is not None and one.memory_total_bytes
    }
    return SystemSummary(
        nodes=nodes,
        devices=devices,
        ram_used_worst=_worst((one.rank, one.ram_used_max_share) for one in nodes),
        utilisation_worst=_worst(
            ((one.rank, one.utilisation_mean_share) for one in devices), lowest=True
        ),
        memory_used_worst=_worst(full.items()),
        temperature_worst_c=_worst((one.rank, one.temperature_max_c) for one in devices),
        throttled_worst=_worst((one.rank, one.throttled_share) for one in devices),
    )


def summarise_processes(window: StepWindow, ranks: Sequence[RankFacts]) -> ProcessSummary | None:
    """Sum up the processes of the ranks; None if nothing was read of any."""
    by_rank = {rank.rank: _process(window, rank) for rank in ranks if rank.process}
    if not by_rank:
        return None
    return ProcessSummary(
        by_rank=by_rank,
        tree_rss_worst_bytes=_worst((n, one.tree_rss_max_bytes) for n, one in by_rank.items()),
        cpu_cores_worst=_worst((n, one.cpu_cores_mean) for n, one in by_rank.items()),
        run_queue_worst=_worst((n, one.run_queue_share) for n, one in by_rank.items()),
        throttled_worst_s=_worst((n, one.throttled_s) for n, one in by_rank.items()),
    )


def _node(window: StepWindow, rank: RankFacts) -> NodeSummary:
    every = rank.system
    steady = _steady(window, rank, every)
    share = quotients(column(every, "ram_used_bytes"), column(every, "ram_total_bytes"))
    return NodeSummary(
        node=rank.node,
        rank=rank.rank,
        readings=len(every),
        cpu_count=_integer(largest(column(every, "cpu_count"))),
        cpu_cores_mean=mean(column(steady, "cpu_cores")),
        cpu_cores_max=largest(column(every, "cpu_cores")),
        load_1min_mean=mean(column(steady, "load_1min")),
        ram_used_max_bytes=_integer(largest(column(every, "ram_used_bytes"))),
        ram_total_bytes=_integer(largest(column(every, "ram_total_bytes"))),
        ram_used_max_share=largest(share),
        disk_read_bytes_per_s=_per_s(steady, "disk_read_bytes"),
        disk_write_bytes_per_s=_per_s(steady, "disk_write_bytes"),
        network_received_bytes_per_s=_per_s(steady, "network_received_bytes"),
        network_sent_bytes_per_s=_per_s(steady, "network_sent_bytes"),
    )


def _device(
    window: StepWindow, rank: RankFacts, device: int, every: Sequence[DeviceReading]
) -> DeviceSummary:
    steady = _steady(window, rank, every)
    known = [words for one in steady if (words := held_back(one)) is not None]
    reasons = {word for words in known for word in words}
    return DeviceSummary(
        rank=rank.rank,
        device=device,
        node=rank.node,
        readings=len(every),
        utilisation_mean_share=mean(column(steady, "utilisation")),
        memory_used_max_bytes=_integer(largest(column(every, "memory_used_bytes"))),
        memory_total_bytes=_integer(largest(column(every, "memory_total_bytes"))),
        power_mean_w=mean(column(steady, "power_w")),
        power_max_w=largest(column(every, "power_w")),
        power_limit_w=largest(column(every, "power_limit_w")),
        temperature_mean_c=mean(column(steady, "temperature_c")),
        temperature_max_c=largest(column(every, "temperature_c")),
        slowdown_temperature_c=largest(column(every, "slowdown_temperature_c")),
        sm_clock_mean_mhz=mean(column(steady, "sm_clock_mhz")),
        sm_clock_max_mhz=largest(column(every, "sm_clock_max_mhz")),
        throttled_share=sum(map(bool, known)) / len(known) if known else None,
        throttle_reason_shares={
            word: sum(word in words for words in known) / len(known) for word in sorted(reasons)
        },
    )


def _process(window: StepWindow, rank: RankFacts) -> RankProcess:
    every = rank.process
    steady = _steady(window, rank, every)
    main, workers = column(every, "rss_bytes"), column(every, "workers_rss_bytes")
    return RankProcess(
        rank=rank.rank,
        node=rank.node,
        readings=len(every),
        cpu_cores_mean=mean(column(steady, "cpu_cores")),
        cpu_cores_max=largest(column(every, "cpu_cores")),
        workers_cpu_cores_mean=mean(column(steady, "workers_cpu_cores")),
        workers_max=_integer(largest(column(every, "workers"))),
        allowed_cores=largest(column(steady, "allowed_cores")),
        threads_max=_integer(largest(column(every, "threads"))),
        rss_max_bytes=_integer(largest(main)),
        workers_rss_max_bytes=_integer(largest(workers)),
        tree_rss_max_bytes=_integer(largest(main + workers)),
        run_queue_share=_share(steady, "run_queue_ns"),
        run_queue_s=_sum_s(every, "run_queue_ns"),
        on_cpu_s=_sum_s(every, "on_cpu_ns"),
        involuntary_switches_per_s=_per_s(steady, "involuntary_switches"),
        voluntary_switches_per_s=_per_s(steady, "voluntary_switches"),
        throttled_s=_sum_s(every, "throttled_ns"),
    )


def _steady(
    window: StepWindow, rank: RankFacts, readings: Sequence[AnyReading]
) -> Sequence[AnyReading]:
    """Give the readings during the steady steps; all of them if none fell there."""
    return of_steady_steps(window, rank, readings) or readings


def _per_s(readings: Sequence[Reading], name: str) -> float | None:
    """Give an amount "since the reading before" per second."""
    per_ns = _share(readings, name)
    return None if per_ns is None else per_ns * _NS_PER_S


def _share(readings: Sequence[Reading], name: str) -> float | None:
    """Give the sum of an amount over the time in which it was counted."""
    amounts, lengths = column(readings, name), column(readings, "interval_ns")
    known = np.isfinite(amounts) & (lengths > 0.0)
    return float(amounts[known].sum() / lengths[known].sum()) if known.any() else None


def _sum_s(readings: Sequence[Reading], name: str) -> float | None:
    amounts = column(readings, name)
    known = amounts[np.isfinite(amounts)]
    return float(known.sum()) / _NS_PER_S if len(known) else None


def _by_rank(window: StepWindow, name: str) -> dict[int, int | None]:
    """Give each rank's largest value of a memory column; empty if no rank has one."""
    matrix = window.memory.get(name)
    if matrix is None or np.isnan(matrix).all():
        return {}
    peaks = row_peaks(matrix, len(window.ranks))
    measured = {rank: _integer(peak) for rank, peak in zip(window.ranks, peaks, strict=True)}
    return {rank: measured.get(rank) for rank in window.expected_ranks}


def _worst(values: Iterable[tuple[int, float | None]], *, lowest: bool = False) -> Worst | None:
    """Give the largest (or lowest) known value with its rank; the lowest rank if several have it."""
    known = [(value, rank) for rank, value in values if value is not None]
    if not known:
        return None
    sign = 1.0 if lowest else -1.0
    value, rank = min(known, key=lambda one: (sign * one[0], one[1]))
    return Worst(float(value), rank)


def _integer(value: float | None) -> int | None:
    return None if value is None or not np.isfinite(value) else int(value)
