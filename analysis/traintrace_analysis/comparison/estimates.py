"""How much a metric differs between two sides, and how far that can be believed.

The run is the unit: runs of the same code differ by more than their steps tell, so an error that is
made of steps alone is never enough. Where runs are repeated, their spread is measured; with one run
a side it comes from a stored noise model, or is assumed.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from traintrace_analysis.comparison.model import ErrorBasis, MetricSide
from traintrace_analysis.comparison.student import critical, upper_tail
from traintrace_analysis.statistics import MAD_TO_SD
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference B - A.

    Attributes:
        value: In ms, or a logarithm of a ratio.
        error: Its standard error. freedom: degrees of freedom of the error; infinite if it is given.
    """

    value: float
    error: float
    freedom: float

    def interval(self, chance: float) -> tuple[float, float]:
        """Give the interval that misses the truth with `chance`, half of it on each side."""
        reach = critical(chance / 2.0, self.freedom) * self.error
        return self.value - reach, self.value + reach

    @property
    def p_value(self) -> float:
        """Two-sided chance of such a difference between runs of the same code."""
        if not self.error > 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return min(1.0, 2.0 * upper_tail(abs(self.value) / self.error, self.freedom))

    @property
    def detectable(self) -> float:
        """The least true difference that would be found with the power of the thresholds."""
        found = critical(limit("comparison_error") / 2.0, self.freedom)
        return (found + critical(1.0 - limit("detection_power"), self.freedom)) * self.error


@dataclass(frozen=True, slots=True)
class Spread:
    """How much runs differ: a standard deviation, and how well it is known.

    Attributes:
        holds_steps: Whether it holds already what the steps of a run add by chance.
    """

    sd: float
    freedom: float
    holds_steps: bool


@dataclass(frozen=True, slots=True)
class Level:
    """One run's value with its standard error from steps, and the steps' degrees of freedom."""

    value: float
    error: float
    freedom: float


def difference(a: Sequence[Level], b: Sequence[Level], spread: Spread | None) -> Estimate:
    """Compare the levels of two sides.

    With several runs on a side, by Welch's t on runs; `spread`, if it was measured, is pooled with
    theirs. With one run a side, `spread` must say how much runs differ.
    """
    value = statistics.fmean(one.value for one in b) - statistics.fmean(one.value for one in a)
    if len(a) == len(b) == 1:
        assert spread is not None
        parts = [part for side in (a, b) for one in side for part in _single(one, spread)]
        if all(part == (spread.sd**2, spread.freedom) for part in parts):
            # One stored spread stands for both, so the two errors are one estimate.
            return Estimate(value, math.sqrt(2.0) * spread.sd, spread.freedom)
    elif spread is not None and math.isfinite(spread.freedom):
        pooled = _pool(a, b, spread)
        parts = [(max(pooled.sd**2, _steps(side)) / len(side), pooled.freedom) for side in (a, b)]
        return Estimate(value, math.sqrt(sum(part for part, _ in parts)), pooled.freedom)
    elif min(len(a), len(b)) == 1:
        # The spread of the repeated side stands for both, so the two errors are one estimate.
        side = max(a, b, key=len)
        variance = max(_variance(side), _steps(side), _steps(a), _steps(b))
        error = math.sqrt(variance * (1.0 / len(a) + 1.0 / len(b)))
        return Estimate(value, error, len(side) - 1.0)
    else:
        parts = [
            (max(_variance(side), _steps(side)) / len(side), len(side) - 1.0) for side in (a, b)
        ]
    return Estimate(value, math.sqrt(sum(part for part, _ in parts)), _satterthwaite(parts))


def log_level(side: MetricSide) -> Level | None:
    """Give the level of a run's usual step as a logarithm; None where a step took nothing."""
    if side.log_mean is None or side.log_sd is None or not side.n_effective:
        return None
    known = _cautious(side)
    return Level(side.log_mean, side.log_sd / math.sqrt(known), max(1.0, known - 1.0))


def mean_level(side: MetricSide) -> Level | None:
    """Give the level of a run's mean, ms per step; None if it was not measured.

    The error is the larger of what the steps say and what the means of blocks say: a few long steps
    show in the blocks only, a short run has no blocks.
    """
    if side.mean_ms is None:
        return None
    steps = log_level(side)
    error = side.mean_ms * steps.error if steps is not None else 0.0
    freedom = steps.freedom if steps is not None else math.inf
    count = len(side.block_means)
    if count > 1:
        blocks = statistics.stdev(side.block_means) / math.sqrt(count)
        if steps is None or blocks > error:
            return Level(side.mean_ms, blocks, count - 1.0)
    return Level(side.mean_ms, error, freedom)


def wander(side: MetricSide) -> float:
    """Give how much the level of a run's blocks differs, as a logarithm; 0 under five blocks.

    A machine whose level wanders within a run brings it to the next run elsewhere. By the median
    deviation: blocks with a long step in them are no other level.
    """
    if len(side.block_means) < 5 or min(side.block_means) <= 0.0:
        return 0.0
    logs = [math.log(mean) for mean in side.block_means]
    middle = statistics.median(logs)
    return MAD_TO_SD * statistics.median(abs(log - middle) for log in logs)


def basis_of(a: int, b: int, measured: bool) -> ErrorBasis:
    """Say where the noise between runs comes from, given how many runs there are a side."""
    if max(a, b) > 1:
        return "runs"
    return "noise_model" if measured else "assumed"


def _single(level: Level, spread: Spread) -> list[tuple[float, float]]:
    """Give the variances of one run's level, each with its degrees of freedom."""
    between, within = (spread.sd**2, spread.freedom), (level.error**2, level.freedom)
    return [max(between, within)] if spread.holds_steps else [between, within]


def _pool(a: Sequence[Level], b: Sequence[Level], spread: Spread) -> Spread:
    freedom = spread.freedom + len(a) + len(b) - 2.0
    squares = spread.freedom * spread.sd**2
    squares += sum((len(side) - 1.0) * _variance(side) for side in (a, b))
    return Spread(math.sqrt(squares / freedom), freedom, holds_steps=True)


def _variance(side: Sequence[Level]) -> float:
    return statistics.variance(one.value for one in side) if len(side) > 1 else 0.0


def _steps(side: Sequence[Level]) -> float:
    return statistics.fmean(one.error**2 for one in side)


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    whole = sum(variance for variance, _ in parts)
    below = sum(variance**2 / freedom for variance, freedom in parts)
    return whole**2 / below if below > 0.0 else math.inf


def _cautious(side: MetricSide) -> float:
    """Give the independent steps, cautiously: tau plus one standard error, as `cautious_time` does."""
    assert side.n_effective is not None
    tau = side.tau or 1.0
    count = side.n_effective * tau
    return max(1.0, count / min(count, tau * (1.0 + math.sqrt(2.0 * (6.0 * tau + 1.0) / count))))
