"""What the loader delivered, and what it needed for it: rates, CPU, bytes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from traintrace.readings import ProcessReading, SystemReading
from traintrace_analysis.context import NS_PER_MS, NS_PER_S, Context
from traintrace_analysis.thresholds import limit

_COVERED: Final = 0.5
IntervalReading = TypeVar("IntervalReading", ProcessReading, SystemReading)


@dataclass(frozen=True, slots=True)
class Supply:
    """How batches were made in the steady steps of one rank. None is "not known".

    Attributes:
        workers: Loader workers; None where batches come from no DataLoader that could be read.
        prefetch: Batches that each worker makes ahead; DataLoader's own default where unknown.
        batches: Batches that one step takes.
        wait_ms: Mean wait of a step for them.
        period_ms: From step to step as a rule: its length, and the usual time between two.
        make_ms: What one worker, or the training loop itself, needs for one batch. Exact where the
            loader is what limits, else at most this.
        handover_ms: Estimate of what passing a batch from a worker to training takes.
        bytes_per_s: Bytes of batches that were delivered.
        cpu_share: Share of the time for a batch that its maker (a worker, or the training loop) computed
            or waited for a core. Workers are taken to wait for one as often as the training thread.
        make_cpu_ms: CPU time of making one batch.
        training_cpu_ms: CPU time of a step beside making batches; all of its threads.
        cores: Cores that this rank may use, its share of the node's where ranks share them.
        cores_in_use: Cores that training and workers used together.
        node_busy: Share of the node's cores that were busy, whoever used them.
        disk_bytes_per_s, network_bytes_per_s: What the whole node read and received.
    """

    workers: int | None
    prefetch: int
    batches: float
    wait_ms: float
    period_ms: float
    make_ms: float
    handover_ms: float
    bytes_per_s: float | None
    cpu_share: float | None
    make_cpu_ms: float | None
    training_cpu_ms: float | None
    cores: float | None
    cores_in_use: float | None
    node_busy: float | None
    disk_bytes_per_s: float | None
    network_bytes_per_s: float | None

    @property
    def rest_ms(self) -> float:
        """What is left of a period without its wait."""
        return self.period_ms - self.wait_ms

    def period_on_cores_ms(self, make_cpu_ms: float) -> float:
        """Give the shortest period that the cores allow if making a batch costs so much CPU time.

        What other processes use is not there for this run, down to the part that it gets by asking for
        more. Where the CPU time of training is unknown, one core is taken to be busy whenever training
        does not wait.
        """
        if not self.cores:
            return 0.0
        training_ms = self.rest_ms if self.training_cpu_ms is None else self.training_cpu_ms
        there = self.cores
        if self.cores_in_use and self.node_busy is not None:
            free = self.cores_in_use + (1.0 - self.node_busy) * self.cores
            there = min(there, max(free, limit("cores_to_be_had") * self.cores))
        return (make_cpu_ms * self.batches + training_ms) / there


def measure_supply(context: Context, wait_ms: float, step_ms: float) -> Supply:
    """Measure what the loader of the representative rank delivered.

    Args:
        context: The run.
        wait_ms: Mean wait of a steady step for its batches.
        step_ms: Mean length of a steady step, its wait included.
    """
    rank, totals = context.rank, context.rank.totals
    loader, batch_bytes = rank.setup.loader, rank.setup.batch_bytes
    batches = max(1.0, totals.micro_batches / max(1, totals.steps))
    period_ms = step_ms + _usual_time_between_ms(context)
    workers = loader.workers or 0
    usage = _measure_usage(context, wait_ms, period_ms, workers)
    node = _steady(context, _system_readings(context))
    return Supply(
        workers=loader.workers,
        prefetch=loader.prefetch_factor or 2,
        batches=batches,
        wait_ms=wait_ms,
        period_ms=period_ms,
        make_ms=(workers * period_ms if workers else wait_ms) / batches,
        handover_ms=limit("handover_fixed") + (batch_bytes or 0) / limit("handover_rate") * 1e3,
        bytes_per_s=batch_bytes * batches / period_ms * 1e3 if batch_bytes and period_ms else None,
        cpu_share=usage.share,
        make_cpu_ms=None if usage.making_ms is None else usage.making_ms / batches,
        training_cpu_ms=usage.training_ms,
        cores=_cores_of(context),
        cores_in_use=usage.cores,
        node_busy=_node_busy(node),
        disk_bytes_per_s=_rate(node, "disk_read_bytes"),
        network_bytes_per_s=_rate(node, "network_received_bytes"),
    )


@dataclass(frozen=True, slots=True)
class _Usage:
    """The CPU that was used: share of time of who makes batches, and CPU time a step."""

    share: float | None = None
    making_ms: float | None = None
    training_ms: float | None = None
    cores: float | None = None


def _measure_usage(context: Context, wait_ms: float, period_ms: float, workers: int) -> _Usage:
    readings = _steady(context, context.rank.process)
    own, helpers = _mean(readings, "cpu_cores"), _mean(readings, "workers_cpu_cores")
    if own is None:
        return _Usage()
    total = own + (helpers or 0.0)
    ran, ready = _rate(readings, "on_cpu_ns"), _rate(readings, "run_queue_ns")
    crowding = 1.0 + ready / ran if ran and ready is not None else None
    if workers:
        if helpers is None:
            return _Usage(training_ms=own * period_ms, cores=total)
        share = min(1.0, helpers / workers * (crowding or 1.0))
        return _Usage(share, helpers * period_ms, own * period_ms, total)
    if ran is None or crowding is None or not 0.0 < wait_ms < period_ms:
        return _Usage(cores=total)
    wanted = ran / NS_PER_S * crowding
    # The training thread made the batches itself: of the time it wanted a core, waits had between these.
    wait = wait_ms / period_ms
    least, most = max(0.0, (wanted - (1.0 - wait)) / wait), min(1.0, wanted / wait)
    middle = limit("cpu_bound_worker")
    if least < middle <= most:
        return _Usage(cores=total)
    share = most if most < middle else least
    making_ms = share * wait_ms / crowding
    return _Usage(share, making_ms, max(0.0, own * period_ms - making_ms), total)


def _system_readings(context: Context) -> Sequence[SystemReading]:
    """Give the readings of the node, which one of its ranks took."""
    node = context.rank.node
    ranks = (rank for rank in context.window.facts if rank.node == node)
    return next((rank.system for rank in ranks if rank.system), ())


def _node_busy(readings: Sequence[SystemReading]) -> float | None:
    used = _mean(readings, "cpu_cores")
    there = next((reading.cpu_count for reading in readings if reading.cpu_count), None)
    return None if used is None or not there else min(1.0, used / there)


def _steady(context: Context, readings: Iterable[IntervalReading]) -> list[IntervalReading]:
    """Give the readings that lie mostly inside the steady steps, if they cover half of them."""
    window, row = context.window, context.row
    first, last = window.open_ns[row, window.warmup_steps], window.close_ns[row, -1]
    kept = [
        reading
        for reading in readings
        if reading.interval_ns and first <= reading.at_ns - reading.interval_ns / 2 <= last
    ]
    covered = sum(reading.interval_ns or 0 for reading in kept)
    return kept if covered >= _COVERED * (last - first) else []


def _mean(readings: Sequence[IntervalReading], field: str) -> float | None:
    """Give the mean of a field over time."""
    known = _known(readings, field)
    return sum(value * ns for value, ns in known) / sum(ns for _, ns in known) if known else None


def _rate(readings: Sequence[IntervalReading], field: str) -> float | None:
    """Give a sum of amounts over time, per second."""
    known = _known(readings, field)
    return (
        sum(value for value, _ in known) / sum(ns for _, ns in known) * NS_PER_S if known else None
    )


def _known(readings: Sequence[IntervalReading], field: str) -> list[tuple[float, int]]:
    """Give the known values of a field with their intervals [ns]; none if they are the fewer ones."""
    values = [(getattr(reading, field), reading.interval_ns or 0) for reading in readings]
    known = [(float(value), ns) for value, ns in values if value is not None]
    return known if 2 * len(known) >= len(values) else []


def _cores_of(context: Context) -> float | None:
    rank = context.rank
    allowed = next((r.allowed_cores for r in rank.process if r.allowed_cores is not None), None)
    sharing = sum(other.node == rank.node for other in context.window.facts)
    node = rank.setup.cpu_count
    shares = [allowed, None if node is None else node / max(1, sharing)]
    return min((float(share) for share in shares if share is not None), default=None)


def _usual_time_between_ms(context: Context) -> float:
    """Give the median time between two steps: workers use it, and a rare evaluation changes nothing."""
    window, row = context.window, context.row
    between = (window.open_ns - window.start_ns)[row, max(1, window.warmup_steps) :]
    return float(np.median(between)) / NS_PER_MS if len(between) else 0.0
