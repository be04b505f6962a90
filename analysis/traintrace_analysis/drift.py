"""Whether a series grows from its beginning to its end, steadily or at once, and by how much.

Steps remember each other, so a slow wave looks like growth to any test that counts steps. The noise
here is what is left beside the best of a few simple shapes, and its memory sets the scale. What rises
and falls back, once or with each epoch, leaves so much with so long a memory that it is no growth.
"""

import math
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.levels import without_spikes
from traintrace_analysis.statistics import block_means, cautious_time
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit

_MOST_BLOCKS = 500  # more only repeat what neighbouring steps say
# Exponents of growth over the series: it slows down, is even, or speeds up.
_RATES = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """Growth of a series, in its unit.

    Attributes:
        start, end: Levels at the beginning and at the end.
        fitted: The level at each step; it never falls.
        shift_at: Place of the one step from which on the level is higher; None if it grows steadily.
        error: Standard error of `end - start`.
    """

    start: float
    end: float
    fitted: Floats
    shift_at: int | None
    error: float

    @property
    def growth(self) -> float:
        """Give how much larger the end is than the start, as a share of the start."""
        return self.end / self.start - 1.0

    def chance_at_least(self, share: float) -> float:
        """Give the chance that the growth reaches `share`, held inside 0.05 to 0.95."""
        deviate = (self.end - self.start * (1.0 + share)) / max(self.error, 1e-12 * self.end)
        return min(max(0.5 * (1.0 + math.erf(deviate / math.sqrt(2.0))), 0.05), 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    change: float
    start: float
    shape: Floats
    error: float
    scatter: float
    left_over: float
    independent: float
    shift_at: int | None


def find_drift(values: Floats) -> Drift | None:
    """Find growth that is larger than chance explains and reaches 3 %.

    The demand on the change over its standard error rises as fewer independent steps are left,
    since a short series hides its own memory.

    Args:
        values: Positive and finite, in time order.

    Returns:
        None if nothing grew, it cannot be told from noise, or there are too few steps.
    """
    count = len(values)
    if count < limit("drift_steps_minimum") or not (values > 0.0).all():
        return None
    length = math.ceil(count / _MOST_BLOCKS)
    means = block_means(without_spikes(values), length)
    best = min(
        [_steady(means, rate) for rate in _RATES] + _shifts(means), key=lambda fit: fit.left_over
    )
    needed = limit("drift_significance") * (1.0 + limit("drift_short_memory") / best.independent)
    if best.start <= 0.0 or best.change < limit("drift_report") * best.start:
        return None
    plain = best.change >= limit("drift_plain") * best.scatter
    if not (plain or best.change >= needed * best.error):
        return None
    places = np.minimum(np.arange(count) // length, len(means) - 1)
    return Drift(
        start=best.start,
        end=best.start + best.change,
        fitted=best.start + best.change * best.shape[places],
        shift_at=None if best.shift_at is None else best.shift_at * length,
        error=best.error,
    )


def line_ends(values: Floats) -> tuple[float, float] | None:
    """Give where a robust straight line through the series begins and ends; None for a short one.

    Theil and Sen: the median slope between the medians of up to twenty blocks. It describes and does
    not judge: a line through noise has ends as well.
    """
    count = len(values)
    if count < limit("steady_steps_minimum"):
        return None
    blocks = min(20, count // 5)
    parts = np.array_split(values, blocks)
    middles = np.array([float(np.median(part)) for part in parts])
    sizes = np.array([len(part) for part in parts], dtype=np.float64)
    times = np.cumsum(sizes) - 0.5 * (sizes + 1.0)
    first, second = np.triu_indices(blocks, 1)
    slope = float(np.median((middles[second] - middles[first]) / (times[second] - times[first])))
    start = float(np.median(middles - slope * times))
    return start, start + slope * (count - 1)


def _steady(means: Floats, rate: float) -> _Fit:
    """Fit start + change (e^(rate u) - 1) / (e^rate - 1), with u from 0 to 1 over the series."""
    count = len(means)
    times = np.arange(count) / (count - 1)
    shape = np.expm1(rate * times) / math.expm1(rate) if rate else times
    around = shape - shape.mean()
    weight = float(around @ around)
    change = float(around @ means) / weight
    start = float(means.mean()) - change * float(shape.mean())
    return _judged(means, start, change, shape, 1.0 / weight, None)


def _shifts(means: Floats) -> list[_Fit]:
    """Fit two levels with the border where they differ most; none in a series too short for two."""
    count = len(means)
    least = max(int(limit("steady_steps_minimum")), count // 20)
    if count < 2 * least:
        return []
    before = np.arange(least, count - least + 1)
    sums = np.cumsum(means)
    low = sums[before - 1] / before
    high = (sums[-1] - sums[before - 1]) / (count - before)
    place = int(np.argmax(before * (count - before) * (high - low) ** 2))
    border = int(before[place])
    shape = (np.arange(count) >= border).astype(np.float64)
    spread = 1.0 / border + 1.0 / (count - border)
    change = float(high[place] - low[place])
    return [_judged(means, float(low[place]), change, shape, spread, border)]


def _judged(
    means: Floats, start: float, change: float, shape: Floats, spread: float, shift_at: int | None
) -> _Fit:
    """Add the error of the change: `spread` is its variance for independent noise of variance 1."""
    rest = means - start - change * shape
    squares = float(rest @ rest)
    tau = max(cautious_time(rest), _first_order_time(rest))
    scatter = math.sqrt(squares / max(1, len(means) - 2))
    error = scatter * math.sqrt(tau * spread)
    return _Fit(change, start, shape, error, scatter, squares, len(means) / tau, shift_at)


def _first_order_time(rest: Floats) -> float:
    """Give tau of an autoregression of first order, its coefficient freed of the bias of a fit.

    Fitting level and slope takes (2 + 4 phi) / n out of the coefficient (Kendall 1954).
    """
    squares = float(rest @ rest)
    if not squares > 0.0:
        return 1.0
    phi = float(rest[1:] @ rest[:-1]) / squares
    phi = min(phi + (2.0 + 4.0 * max(phi, 0.0)) / len(rest), 0.99)
    return max(1.0, (1.0 + phi) / (1.0 - phi))
