"""Where a value goes over the run: down, nowhere, up, or away; robust against noise that remembers itself."""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from traintrace_analysis.convergence.signals import Signal
from traintrace_analysis.convergence.spikes import logarithmic
from traintrace_analysis.convergence.tails import memory_within
from traintrace_analysis.statistics import MAD_TO_SD, student_quantile
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit

Trend: TypeAlias = Literal["falling", "flat", "rising", "unclear"]

_LEAST: Final = 30  # values without which nothing is said about a course
_SHORTEST_STRETCH: Final = 8
_FEWEST_STRETCHES: Final = 5
_ENOUGH_BEFORE: Final = 8  # stretches before a rise that tell their noise by themselves
_BLOCKS: Final = 20
_SMOOTHED: Final = 64  # values whose median is what the run does there; noise remembers less
_LEFT: Final = math.log(1.5)  # above its lowest level
_Z_PLATEAU: Final = 2.326  # one-sided 99 %


@dataclass(frozen=True, slots=True)
class Rise:
    """A value that rose from its lowest level and stayed up to the end.

    Attributes:
        step: The first logged step from which on it stayed above the middle of the rise, or half as high again.
        low, high: Median of the lowest stretch, and of the last one. start: of the first one.
        low_step: Where the lowest stretch ends.
        clearness: The rise over what neighbouring stretches differ by.
    """

    step: int
    low: float
    high: float
    start: float
    low_step: int
    clearness: float

    @property
    def ratio(self) -> float | None:
        """Give the last level over the lowest; None where that is not positive."""
        return self.high / self.low if self.low > 0.0 else None

    @property
    def growth(self) -> float:
        """Give the rise as a share of the lowest level, which may be negative; infinite from zero."""
        return (self.high - self.low) / abs(self.low) if self.low else math.inf

    @property
    def may_be_good(self) -> bool:
        """Tell a value between 0 and 1 that was never lower than in the beginning, as an accuracy called a loss is."""
        return self.start <= self.low and 0.0 <= self.low and self.high <= 1.0

    @property
    def lost(self) -> float:
        """Give the share of what had been reached that the rise undid; 1 if nothing had been reached."""
        reached = self.start - self.low
        return 1.0 if reached <= 0.0 else min(1.0, (self.high - self.low) / reached)


@dataclass(frozen=True, slots=True)
class Plateau:
    """A value that fell, and then stopped.

    Attributes:
        step: Since when. level: its median since then. start: the median that the run began with.
        most_share: The most that it can have fallen since, as a share of the whole fall, with 99 % confidence.
    """

    step: int
    level: float
    start: float
    most_share: float


def trend_of(signal: Signal) -> Trend:
    """Say where a finite series goes: its last quarter against its first, by the medians of blocks."""
    values = logarithmic(signal.values)
    if len(values) < _LEAST:
        return "unclear"
    medians = _medians(values, max(1, len(values) // _BLOCKS))
    part = max(2, len(medians) // 4)
    early, late = medians[:part], medians[-part:]
    change = float(np.median(late) - np.median(early))
    # Neighbours differ by noise; a steady trend is taken out of that by its median.
    noise = _difference(medians) * math.sqrt(1.6 / part) * 2.0
    if abs(change) > limit("trend_clearness") * max(noise, 1e-12):
        return "rising" if change > 0.0 else "falling"
    # That nothing is seen says little where little could be seen.
    level = 1.0 if values is not signal.values else abs(float(np.median(values)))
    return "flat" if abs(change) + 2.0 * noise <= limit("trend_flat") * level else "unclear"


def find_rise(signal: Signal) -> Rise | None:
    """Find a rise to the end that noise does not explain: over stretches of 8 values to a fifth of them."""
    values = logarithmic(signal.values)
    length = max(_SHORTEST_STRETCH, math.ceil(2.0 * _memory(values)))
    while len(values) >= max(_LEAST, _FEWEST_STRETCHES * length):
        found = _rise(signal, values, length)
        if found is not None:  # the shortest stretches tell best where it began
            return found
        length *= 2
    return None


def _rise(signal: Signal, values: Floats, length: int) -> Rise | None:
    # Blocks are counted from the end, so that the last one is whole.
    rest = len(values) % length
    medians = _medians(values[rest:], length)
    if len(medians) < _FEWEST_STRETCHES:
        return None
    # One low stretch by luck is no level to have risen from, and one high one is none to have risen to.
    calm = np.median(np.lib.stride_tricks.sliding_window_view(medians, 3), axis=1)
    lowest = int(np.argmin(calm[:-2])) + 1
    low, high = float(calm[lowest - 1]), float(medians[-2:].min())
    rise = high - low
    calm_before = medians[: lowest + 1] if lowest >= _ENOUGH_BEFORE else medians
    noise = max(_difference(calm_before), 1e-9 * (1.0 + float(np.max(np.abs(medians)))))
    if rise < limit("rise_clearness") * noise:
        return None
    before = medians[: lowest + 1]
    climbed = float((before - np.minimum.accumulate(before)).max())
    if rise < limit("rise_over_earlier") * climbed:
        return None
    middle = low + 0.5 * rise
    tail = values[-length:]
    if float(np.quantile(tail, 0.1)) < middle:  # it has begun to come back
        return None
    positive = values is not signal.values
    # A loss that runs away is lost long before it is half-way up.
    left = low + (min(0.5 * rise, _LEFT) if positive else 0.5 * rise)
    start = rest + (int(np.flatnonzero(medians <= left)[-1]) + 1) * length
    low, high, first = (
        float(np.exp(one)) if positive else float(one)
        for one in (low, float(medians[-1]), float(medians[0]))
    )
    return Rise(
        step=int(signal.steps[start]),
        low=low,
        high=high,
        start=first,
        low_step=int(signal.steps[rest + (lowest + 1) * length - 1]),
        clearness=rise / noise,
    )


def find_plateau(signal: Signal) -> Plateau | None:
    """Find the longest stretch to the end, half of the run at least, over which a fall has stopped for certain."""
    values = signal.values
    if len(values) < limit("plateau_values_minimum"):
        return None
    start = float(np.median(values[: max(_SHORTEST_STRETCH, len(values) // _BLOCKS)]))
    for share in (0.125, 0.25, 0.375, 0.5):
        first = int(share * len(values))
        after = values[first:]
        length = len(after) // _BLOCKS
        means = _middles(after, length)
        level = float(np.median(means))
        fall = start - level
        noise = _difference(means)
        if fall <= 0.0 or fall < limit("plateau_fall_share") * abs(start) or fall < 10.0 * noise:
            continue
        most = _most_fallen(means)
        if most <= limit("plateau_margin") * fall:
            return Plateau(int(signal.steps[first]), level, start, max(0.0, most) / fall)
    return None


def _middles(values: Floats, length: int) -> Floats:
    """Give the mean of the middle half of each block: nearly as calm as a mean, and not moved by single values."""
    whole = len(values) // length * length
    rows = np.sort(values[len(values) - whole :].reshape(-1, length), axis=1)
    middles: Floats = rows[:, length // 4 : length - length // 4].mean(axis=1)
    return middles


def _most_fallen(means: Floats) -> float:
    """Give the upper 99 % bound of how far a straight line through the blocks falls from end to end."""
    count = len(means)
    places = np.arange(count) - (count - 1) / 2.0
    weight = float(places @ places)
    slope = float(places @ means) / weight
    left = means - means.mean() - slope * places
    # Blocks that still remember each other count for fewer.
    memory = float(left[1:] @ left[:-1]) / max(float(left @ left), 1e-300)
    wider = math.sqrt((1.0 + max(0.0, memory)) / max(0.1, 1.0 - max(0.0, memory)))
    error = math.sqrt(float(left @ left) / (count - 2) / weight) * wider
    return (count - 1) * (student_quantile(_Z_PLATEAU, count - 2.0) * error - slope)


def _memory(values: Floats) -> float:
    """Give the memory of the noise in values, seen in stretches of 64 without their own trends."""
    rows = len(values) // _SMOOTHED
    if not rows:
        return 1.0
    parts = values[-rows * _SMOOTHED :].reshape(rows, _SMOOTHED)
    places = np.arange(_SMOOTHED) - (_SMOOTHED - 1) / 2.0
    parts = parts - parts.mean(axis=1, keepdims=True)
    left = parts - np.outer(parts @ places / float(places @ places), places)
    spreads = MAD_TO_SD * np.median(np.abs(left), axis=1, keepdims=True)
    return memory_within(left / np.maximum(spreads, 1e-300))


def _medians(values: Floats, length: int) -> Floats:
    blocks = len(values) // length
    medians: Floats = np.median(values[: blocks * length].reshape(blocks, length), axis=1)
    return medians


def _difference(medians: Floats) -> float:
    """Give the robust standard deviation of a block about its neighbour, without their common trend."""
    steps = np.diff(medians)
    if not len(steps):
        return 0.0
    return MAD_TO_SD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2.0)
