"""From which size on a value is no noise, whatever tails the noise of this run has.

A fixed number of standard deviations is passed by every long run, and by every run with heavy tails. So the
tails are learnt from the run: of Student's distributions with 1.5 degrees of freedom to infinity and of all
scales the likelihood of what lies outside the middle is taken, above and below alike, since spikes up do not
spoil the lower side. For each size that occurs, what is larger is left out of the likelihood (which is cut off
there), and the number of noise values beyond it is predicted, averaged over the distributions. Values count as
no noise from the smallest size on at which so many are beyond chance.

Noise that remembers itself comes in clusters, so the largest of each stretch of its memory counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.convergence.surroundings import WIDTH, Surroundings
from traintrace_analysis.step_window import Floats

_FREEDOMS: Final = (1.5, 2.2, 3.0, 4.0, 6.0, 10.0, 25.0, 1000.0)
# How likely each is before anything was seen: logged losses have tails that are lighter than those of t3.
_BEFORE: Final = (0.02, 0.05, 0.10, 0.13, 0.15, 0.18, 0.18, 0.19)
_SCALES: Final = tuple(float(s) for s in np.exp(np.linspace(math.log(0.35), math.log(2.5), 11)))
_TAIL_SHARE: Final = 0.2
_TAIL_FROM: Final = 1.0  # spreads; nearer the middle the shape of the noise is another matter
_TAIL_MOST: Final = 1500  # per side and run; more make the answer no better, only slower
_CANDIDATES: Final = 0.1  # of the upper tail: what is more frequent is no exception
_FEWEST: Final = 5
# Where hardly any value differs from the usual one there is no tail to learn: a number that is nearly constant.
_FAR: Final = 30.0
_CONSTANT: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Student's distribution on a grid: logarithms of density and of the chance beyond."""

    density: Floats
    beyond: Floats


_GRID: Final[Floats] = np.concatenate(
    [np.linspace(0.0, 30.0, 1501), np.exp(np.linspace(math.log(30.05), math.log(1e6), 300))]
)


def _table(freedom: float) -> _Table:
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    logs = (
        constant
        - 0.5 * math.log(freedom * math.pi)
        - (freedom + 1) / 2 * np.log1p(_GRID**2 / freedom)
    )
    density = np.exp(logs)
    areas = (density[1:] + density[:-1]) / 2.0 * np.diff(_GRID)
    beyond = np.append(np.cumsum(areas[::-1])[::-1], 0.0) + density[-1] * _GRID[-1] / freedom
    return _Table(np.maximum(logs, -690.0), np.log(np.maximum(beyond, 1e-300)))


_TABLES: Final = tuple(_table(freedom) for freedom in _FREEDOMS)


def outlier_size(around: Surroundings, chance: float) -> float:
    """Give the size, in spreads, from which on values above their surroundings are no noise.

    Args:
        around: The series.
        chance: That noise alone has any such value.

    Returns:
        Infinity if there are none.
    """
    above, below = _block_peaks(around)
    if len(above) < 2 * _FEWEST:
        return math.inf
    pooled = np.concatenate([above, below])
    count = int(min(_TAIL_SHARE * len(pooled), 2 * _TAIL_MOST))
    start = max(float(np.partition(pooled, len(pooled) - count)[len(pooled) - count]), _TAIL_FROM)
    upper = np.sort(above[above > start])[::-1]
    lower = below[below > start]
    if len(upper) < _FEWEST or len(lower) < _FEWEST // 2:
        differs = float((around.above > _TAIL_FROM).mean() + (around.below > _TAIL_FROM).mean())
        return _FAR if differs < _CONSTANT else math.inf
    order = np.arange(1.0, max(1, int(_CANDIDATES * len(upper))) + 1)
    chances = _chances(upper, lower, start, order)
    # Spread over the candidates as 1/i^2, which sums to pi^2/6: single outliers are the usual ones.
    enough = chances * order**2 * (math.pi**2 / 6.0) < chance
    found = np.flatnonzero(enough)
    return float(upper[found[-1]]) if len(found) else math.inf


def _block_peaks(around: Surroundings) -> tuple[Floats, Floats]:
    length = max(1, round(_memory(around.above)))
    blocks = len(around.above) // length
    whole = blocks * length

    def peaks(values: Floats) -> Floats:
        largest: Floats = values[-whole:].reshape(blocks, length).max(axis=1)
        return largest

    return peaks(around.above), peaks(around.below)


def _memory(values: Floats) -> float:
    """Give the autocorrelation time of noise, seen in stretches of 64 values without their means.

    The run as a whole would tell more, but what is usual there is known too little for that: its own error
    lasts for as long.
    """
    rows = len(values) // WIDTH
    if not rows:
        return 1.0
    parts = values[-rows * WIDTH :].reshape(rows, WIDTH)
    return memory_within(parts)


def memory_within(parts: Floats) -> float:
    """Give the autocorrelation time within rows, in spreads, from the mean of their autocovariances."""
    clipped = np.clip(parts, -1.5, 1.5)
    width = parts.shape[1]
    spectrum = np.abs(np.fft.rfft(clipped - clipped.mean(axis=1, keepdims=True), 2 * width)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=0))[: width // 2]
    if not covariance[0] > 0.0:
        return 1.0
    pairs = (covariance / covariance[0]).reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = pairs[: negative[0]] if len(negative) else pairs
    return max(1.0, 2.0 * float(kept.sum()) - 1.0)


def _chances(upper: Floats, lower: Floats, start: float, order: Floats) -> Floats:
    """Give for each candidate i the chance that noise has i values or more of the size of the i-th largest."""
    likelihoods, expected = [], []
    for table, before in zip(_TABLES, _BEFORE, strict=True):
        for scale in _SCALES:
            fit = _fit(table, scale, upper, lower, start, order)
            likelihoods.append(fit[0] + math.log(before))
            expected.append(fit[1])
    weights = np.asarray(likelihoods)
    weights = np.exp(weights - weights.max(axis=0))
    weights /= weights.sum(axis=0)
    averaged: Floats = (weights * _at_least(order, np.asarray(expected))).sum(axis=0)
    return averaged


def _fit(
    table: _Table, scale: float, upper: Floats, lower: Floats, start: float, order: Floats
) -> Sequence[Floats]:
    """Give log-likelihood and expected number beyond the i-th largest, by candidate, of one distribution."""
    count = len(order)
    above = np.interp(upper / scale, _GRID, table.density) - math.log(scale)
    under = np.interp(lower / scale, _GRID, table.density) - math.log(scale)
    tail = math.exp(float(np.interp(start / scale, _GRID, table.beyond)))
    beyond = np.exp(np.interp(upper[:count] / scale, _GRID, table.beyond))
    kept = float(above.sum()) - np.cumsum(above)[:count] + float(under.sum())
    cut = (len(upper) - order) * np.log(np.maximum(tail - beyond, 1e-300))
    return kept - cut - len(lower) * math.log(tail), len(upper) * beyond / tail


def _at_least(order: Floats, expected: Floats) -> Floats:
    """Bound the chance of a Poisson number to reach `order`: its first term over a geometric series."""
    factorials = np.asarray([math.lgamma(one + 1.0) for one in order])
    ratio = np.minimum(expected / (order + 1.0), 0.999)
    logs = order * np.log(np.maximum(expected, 1e-300)) - expected - factorials - np.log1p(-ratio)
    chances: Floats = np.where(expected >= order, 1.0, np.exp(np.minimum(logs, 0.0)))
    return chances
