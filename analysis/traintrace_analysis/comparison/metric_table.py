"""Every metric on both sides: what it was, how it differs, how far that can be believed."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from traintrace_analysis.comparison.estimates import (
    Estimate,
    Level,
    difference,
    log_level,
    mean_level,
)
from traintrace_analysis.comparison.model import (
    ComparedRun,
    Judgement,
    MetricComparison,
    MetricSide,
    MetricSummary,
)
from traintrace_analysis.comparison.run_noise import RunNoise
from traintrace_analysis.thresholds import limit

CATCH_ALL = ("other", "residual")
"""Metrics that hold the time of whatever was not measured."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric on both sides, not yet judged; estimates are None where a side lacks it."""

    name: str
    a: MetricSummary
    b: MetricSummary
    mean: Estimate | None
    log: Estimate | None
    reason: str

    @property
    def size_ms(self) -> float:
        """Mean of both sides, ms per step; 0 if unknown."""
        return ((self.a.mean_ms or 0.0) + (self.b.mean_ms or 0.0)) / 2.0


def contrast(
    name: str, a: Sequence[ComparedRun], b: Sequence[ComparedRun], noise: RunNoise | None
) -> Contrast:
    """Compare one metric; without `noise` its sides are only shown."""
    sides = [[run.metrics.get(name) for run in side] for side in (a, b)]
    summaries = [_summary(name, side) for side in sides]
    one, other = summaries
    reason = "; ".join(
        f"not measured in {label} ({summary.reason})"
        for label, summary in (("A", one), ("B", other))
        if not summary.available
    )
    known = [side for runs in sides for side in runs if side is not None]
    if not reason and len({side.clock for side in known}) > 1:
        reason = "timed by different clocks"
    if not reason and name in CATCH_ALL:
        reason = _hidden(a, b)
    if reason or noise is None:
        return Contrast(name, one, other, None, None, reason or "not comparable")
    means = [[mean_level(side) for side in runs if side is not None] for runs in sides]
    logs = [[log_level(side) for side in runs if side is not None] for runs in sides]
    size = ((one.mean_ms or 0.0) + (other.mean_ms or 0.0)) / 2.0
    mean = _all(means)
    log = _all(logs)
    return Contrast(
        name,
        one,
        other,
        mean=None if mean is None else difference(*mean, noise.of_mean(name, size)),
        log=None if log is None or not size else difference(*log, noise.of_log(name, size)),
        reason="",
    )


def tell(of: Contrast, judged: Judgement, reason: str) -> MetricComparison:
    """Write a contrast with its judgement."""
    error = limit("comparison_error")
    low_ms, high_ms = of.mean.interval(error) if of.mean is not None else (None, None)
    log = of.log or ratio_of_means(of)
    logs = log.interval(error) if log is not None else (None, None)
    return MetricComparison(
        name=of.name,
        a=of.a,
        b=of.b,
        difference_ms=None if of.mean is None else of.mean.value,
        low_ms=low_ms,
        high_ms=high_ms,
        ratio=None if log is None else _exp(log.value),
        ratio_low=None if logs[0] is None else _exp(logs[0]),
        ratio_high=None if logs[1] is None else _exp(logs[1]),
        smallest_detectable_ms=None if of.mean is None else of.mean.detectable,
        smallest_detectable=None if log is None else _exp(log.detectable) - 1.0,
        judged=judged,
        reason=reason,
        p_value=None if of.mean is None else of.mean.p_value,
    )


def judge_ratio(of: Contrast) -> tuple[Judgement, str]:
    """Judge a metric by the ratio of its usual step."""
    log = of.log or ratio_of_means(of)
    if log is None:
        return "unknown", of.reason or "a side took no time"
    low, high = log.interval(limit("comparison_error"))
    matters = abs(log.value) > max(math.log1p(limit("change_minimum")), _floor(of))
    if matters and low > 0.0:
        return "regressed", "beyond what runs of the same code differ by"
    if matters and high < 0.0:
        return "improved", "beyond what runs of the same code differ by"
    margin = equivalence_margin(of)
    inner = log.interval(2.0 * limit("equivalence_error"))
    if -margin < inner[0] and inner[1] < margin:
        return "equivalent", f"any difference is less than {100.0 * math.expm1(margin):.2g} %"
    return (
        "open",
        f"less than {100.0 * (_exp(log.detectable) - 1.0):.2g} % could not have been seen",
    )


def finite(side: MetricSide) -> MetricSide:
    """Give the side, as not measured if a number of it is not finite."""
    numbers = (side.mean_ms, side.log_mean, side.log_sd, side.tau, side.n_effective, *side.block_means)  # fmt: skip
    if all(number is None or math.isfinite(number) for number in numbers):
        return side
    return MetricSide(side.name, available=False, reason="a number is not finite", clock=side.clock)


def _summary(name: str, sides: Sequence[MetricSide | None]) -> MetricSummary:
    means = []
    for side in sides:
        if side is None:
            return MetricSummary(False, None, len(sides), f"the summary has no {name}")
        if side.mean_ms is None:
            return MetricSummary(False, None, len(sides), side.reason)
        means.append(side.mean_ms)
    return MetricSummary(True, statistics.fmean(means), len(sides), None)


def _hidden(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> str:
    """Name a part that is measured on one side only: on the other its time lies in the rest."""
    for name in a[0].metrics:
        there = {
            side is not None and side.available
            for run in (*a, *b)
            for side in (run.metrics.get(name),)
        }
        if name not in (*CATCH_ALL, "compute", "traced_step_time") and len(there) > 1:
            return f"where {name} is not measured its time is in here"
    return ""


def equivalence_margin(of: Contrast) -> float:
    """Give the logarithm of the ratio up to which a change is as good as none."""
    return max(math.log1p(limit("equivalence_margin")), _floor(of))


def _floor(of: Contrast) -> float:
    """Give what matters at least: in ms the same ratio is worth less on a short step."""
    return math.log1p(limit("change_minimum_ms") / of.size_ms)


def ratio_of_means(of: Contrast) -> Estimate | None:
    """Give the logarithm of the ratio of means, by the difference's error over their size."""
    a, b = of.a.mean_ms, of.b.mean_ms
    if of.mean is None or not a or not b:
        return None
    return Estimate(math.log(b / a), of.mean.error / of.size_ms, of.mean.freedom)


def _all(levels: Sequence[Sequence[Level | None]]) -> tuple[list[Level], list[Level]] | None:
    known = [[level for level in side if level is not None] for side in levels]
    if any(len(some) < len(side) for some, side in zip(known, levels, strict=True)):
        return None
    return known[0], known[1]


def _exp(log: float) -> float:
    return math.exp(min(max(log, -700.0), 700.0))
