"""What each stage did: utilisation, demand, throughput, waits."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from traintrace.stagefacts import StageWorker
from traintrace_analysis.stages.flow import Flow
from traintrace_analysis.stages.model import StageLoad
from traintrace_analysis.stages.steady import since
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.step_window import Floats


def measure_stage(
    name: str,
    workers: Sequence[StageWorker],
    per_item: float | None,
    begin_ns: int | None = None,
) -> StageLoad:
    """Add up the workers of one stage.

    Args:
        name: Of the stage.
        workers: Its workers, one at least.
        per_item: Services of this stage that one item of the last stage needs; None if unknown.
        begin_ns: Services that were done by then count in no mean: the pipeline was not warm.
    """
    time_ns = sum(one.end_ns - one.start_ns for one in workers)
    start, end = min(one.start_ns for one in workers), max(one.end_ns for one in workers)
    span_s = (end - start) / 1e9
    busy_ns = _account(workers, "busy")
    services = sum(one.service_count for one in workers)
    served_ns = sum(one.busy_sum_ns for one in workers)
    service_ns, variation = _service(workers, begin_ns)
    tokens = [one.tokens for one in workers if one.tokens is not None]
    items = sum(one.items for one in workers)
    demand = None
    if service_ns is not None and per_item is not None:
        demand = per_item * service_ns / len(workers) / 1e6
    return StageLoad(
        name=name,
        workers=len(workers),
        kinds=tuple(dict.fromkeys(one.kind for one in workers)),
        span_s=span_s,
        busy_share=_share(busy_ns, time_ns),
        starved_share=_share(_account(workers, "starved"), time_ns),
        blocked_share=_share(_account(workers, "blocked"), time_ns),
        other_share=_share(_account(workers, "other"), time_ns),
        starved_by=_by_queue([one.starved_ns for one in workers], time_ns),
        blocked_by=_by_queue([one.blocked_ns for one in workers], time_ns),
        items=items,
        tokens=sum(tokens) if tokens else None,
        items_per_s=items / span_s if span_s > 0.0 else None,
        tokens_per_s=sum(tokens) / span_s if tokens and span_s > 0.0 else None,
        services=services,
        service_ms=None if service_ns is None else service_ns / 1e6,
        service_cv=variation,
        per_item=per_item,
        demand_ms=demand,
        demand_error_ms=None if demand is None else demand * relative_error(workers, begin_ns),
        law_deviation=(busy_ns - served_ns) / busy_ns if busy_ns and services else None,
        unmeasured="; ".join(dict.fromkeys(one.unmeasured for one in workers if one.unmeasured)),
    )


def measure_stages(flow: Flow, begin_ns: int | None = None) -> tuple[StageLoad, ...]:
    """Add up all stages, those apart from the pipeline last; `begin_ns` is when all were warm."""
    per_item: Mapping[str, float | None] = {} if not flow.services[flow.last] else flow.per_item()
    return tuple(
        measure_stage(name, flow.workers[name], per_item.get(name), begin_ns)
        for name in (*flow.names, *flow.apart)
    )


def _service(
    workers: Sequence[StageWorker], begin_ns: int | None
) -> tuple[float | None, float | None]:
    """Give the mean time of work on one service [ns] and its standard deviation over that, of all that counts."""
    if begin_ns is not None:
        series = service_series(workers, begin_ns)
        if not len(series) or not series.mean() > 0.0:
            return None, None
        return float(series.mean()), float(series.std() / series.mean())
    count = sum(one.service_count for one in workers)
    mean = sum(one.busy_sum_ns for one in workers) / count if count else 0.0
    if not mean > 0.0:
        return (0.0 if count else None), None
    squares = sum(one.busy_sum_squares_ns2 for one in workers)
    return mean, math.sqrt(max(0.0, squares / count - mean**2)) / mean


def service_series(workers: Sequence[StageWorker], begin_ns: int | None) -> Floats:
    """Give the work of the kept services of all workers together [ns], in the order in which they were done."""
    kept = sorted(
        (one.done_ns, one.busy_ns) for worker in workers for one in since(worker, begin_ns)
    )
    return np.asarray([busy for _, busy in kept], dtype=np.float64)


def relative_error(workers: Sequence[StageWorker], begin_ns: int | None) -> float:
    """Give the standard error of the mean time of work, as a share of it; infinite under two services.

    With the memory that the series has: hard batches that come in a row tell less than their number.
    """
    series = service_series(workers, begin_ns)
    ratio = estimate_ratio(series, np.ones_like(series))
    if ratio is None or len(series) < 2 or not ratio.value > 0.0:
        return math.inf
    return ratio.error / ratio.value


def _account(workers: Sequence[StageWorker], name: str) -> int:
    return sum(one.account_ns.get(name, 0) for one in workers)


def _share(part_ns: float, whole_ns: float) -> float:
    return part_ns / whole_ns if whole_ns > 0 else 0.0


def _by_queue(waits: Sequence[Mapping[str, int]], time_ns: int) -> dict[str, float]:
    names = dict.fromkeys(name for one in waits for name in one)
    return {name: _share(sum(one.get(name, 0) for one in waits), time_ns) for name in names}
