"""Summarise each metric of a window: over its steps, then over the ranks."""

import numpy as np

from traintrace_analysis.drift import line_ends
from traintrace_analysis.model import Metric, MetricStatistics, Tail
from traintrace_analysis.spikes import find_spikes
from traintrace_analysis.statistics import (
    autocorrelation_time,
    block_means,
    comparison_block,
    winsorise,
)
from traintrace_analysis.step_window import Floats, Ints, StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.window import METRICS

_NS_PER_MS = 1e6


def summarise_metrics(window: StepWindow) -> dict[str, Metric]:
    """Summarise every metric; one that was not measured keeps its name and has None throughout."""
    return {name: _metric(window, name) for name in METRICS}


def representative(means: Floats, ranks: tuple[int, ...]) -> int | None:
    """Give the row of the real rank nearest the median: then the lower value, then the lower rank.

    NaN means are left out; None if nothing is left.
    """
    rows = np.flatnonzero(~np.isnan(means))
    if not len(rows):
        return None
    # The lower of two middle values by its place: their distances to the median differ by rounding.
    middle = np.sort(means[rows])[(len(rows) - 1) // 2]
    return int(min(rows[means[rows] == middle], key=lambda row: ranks[row]))


def rank_means(matrix: Floats | None, rows: int) -> Floats:
    """Give each rank's mean over its measured steps; NaN under 95 % coverage."""
    means = np.full(rows, np.nan)
    if matrix is None or not matrix.shape[1]:
        return means
    there = ~np.isnan(matrix)
    counts = there.sum(axis=1)
    enough = counts >= max(1.0, limit("coverage_minimum") * matrix.shape[1])
    sums = np.where(there, matrix, 0.0).sum(axis=1)
    np.divide(sums, counts, out=means, where=enough)
    return means


def summarise_statistics(
    window: StepWindow, metrics: dict[str, Metric], rank: int | None
) -> dict[str, MetricStatistics]:
    """Describe each measured metric of `rank` well enough to compare it with another run."""
    if rank is None:
        return {}
    row = window.ranks.index(rank)
    described: dict[str, MetricStatistics] = {}
    for name, metric in metrics.items():
        matrix = window.steady(name)
        if matrix is None or metric.by_rank.get(rank) is None:
            continue
        values = matrix[row] / _NS_PER_MS
        described[name] = describe(rank, values[~np.isnan(values)])
    return described


def describe(rank: int, values_ms: Floats) -> MetricStatistics:
    """Describe one series; the logarithm is used where every value is positive."""
    positive = bool((values_ms > 0.0).all())
    logs = winsorise(np.log(values_ms)) if positive else values_ms
    tau = autocorrelation_time(logs)
    block = comparison_block(len(values_ms), tau)
    return MetricStatistics(
        rank=rank,
        log_mean=float(logs.mean()) if positive else None,
        log_sd=float(logs.std(ddof=1)) if positive and len(logs) > 1 else None,
        tau=tau,
        n_effective=len(values_ms) / tau,
        block_steps=block,
        block_means_ms=tuple(float(mean) for mean in block_means(values_ms, block)),
    )


def _metric(window: StepWindow, name: str) -> Metric:
    rows = len(window.ranks)
    matrix = window.steady(name)
    means = rank_means(matrix, rows)
    by_rank: dict[int, float | None] = dict.fromkeys(window.expected_ranks)
    for rank, mean in zip(window.ranks, means, strict=True):
        if not np.isnan(mean):
            by_rank[rank] = float(mean) / _NS_PER_MS
    chosen = representative(means, window.ranks)
    clock = window.clock_of(name)
    if chosen is None or matrix is None:
        return Metric(name=name, clock=clock, by_rank=by_rank)
    there = ~np.isnan(matrix[chosen])
    values = matrix[chosen][there] / _NS_PER_MS
    start, end = line_ends(values) or (None, None)
    median, p95, p99 = (float(value) for value in np.quantile(values, [0.5, 0.95, 0.99]))
    worst = int(np.nanargmax(means))
    middle = float(np.nanmedian(means))
    measured = int((~np.isnan(means)).sum())
    skewed = measured > 1 and middle > 0.0
    return Metric(
        name=name,
        clock=clock,
        by_rank=by_rank,
        mean_ms=float(values.mean()),
        std_ms=float(values.std(ddof=1)) if len(values) > 1 else None,
        median_ms=median,
        p95_ms=p95,
        p99_ms=p99,
        min_ms=float(values.min()),
        max_ms=float(values.max()),
        share=_share(window, means),
        worst_ms=float(means[worst]) / _NS_PER_MS,
        worst_rank=window.ranks[worst],
        representative_rank=window.ranks[chosen],
        skew=(float(means[worst]) - middle) / middle if skewed else None,
        host_mean_ms=_clock_mean(window, window.host.get(name), chosen),
        device_mean_ms=_clock_mean(window, window.device.get(name), chosen),
        n=len(values),
        ranks_measured=measured,
        start_ms=start,
        end_ms=end,
        tail=_tail(values, window.steps[window.warmup_steps :][there]),
    )


def _tail(values: Floats, steps: Ints) -> Tail | None:
    if not len(values) or not (values > 0.0).all():
        return None
    spikes = find_spikes(values, steps)
    return Tail(
        count=len(spikes.places),
        excess_share=float(spikes.excess.sum() / values.sum()),
        spacing_steps=spikes.spacing,
        regular_share=spikes.regular,
    )


def _share(window: StepWindow, means: Floats) -> float | None:
    """Give the median over ranks of each rank's share in its own step time."""
    step = rank_means(window.steady("step_time"), len(window.ranks))
    there = ~np.isnan(means) & (step > 0.0)
    return float(np.median(means[there] / step[there])) if there.any() else None


def _clock_mean(window: StepWindow, matrix: Floats | None, row: int) -> float | None:
    if matrix is None:
        return None
    mean = rank_means(matrix[row : row + 1, window.warmup_steps :], 1)[0]
    return None if np.isnan(mean) else float(mean) / _NS_PER_MS
