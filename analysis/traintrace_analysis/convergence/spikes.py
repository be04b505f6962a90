"""Rises of a logged value that come back: a step, or some hundreds of them, far above what surrounds them."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.convergence.lasting import SHORTEST_ROW, lasting, runs
from traintrace_analysis.convergence.signals import Signal
from traintrace_analysis.convergence.surroundings import SHORTEST, Surroundings, surroundings
from traintrace_analysis.convergence.tails import outlier_size
from traintrace_analysis.step_window import Floats, Marks

# Medians of so many values are looked at too: what lasts is found in them, and single values do not move them.
_SCALES: Final = (1, 3, 8, 24)
_JOINED: Final = 8  # values between two rises that are one
_REMEMBERS: Final = 0.3  # correlation of neighbours from which on pushes are looked at
_STANDS_OUT: Final = 4.0  # spreads
_RETURNED: Final = 16  # values whose median tells where a series is
_SOON: Final = 128  # values: two widths of what is usual


@dataclass(frozen=True, slots=True)
class Spike:
    """One rise that came back.

    Attributes:
        first_step, last_step: Logged steps that stick out. peak_step: the highest of them.
        peak: The highest value. level: what was usual around it.
        spreads: How far the highest lies above the level, in robust standard deviations of the noise there.
    """

    first_step: int
    last_step: int
    peak_step: int
    peak: float
    level: float
    spreads: float

    @property
    def ratio(self) -> float | None:
        """Give how many times the usual value the peak is; None where that is not positive."""
        return self.peak / self.level if self.level > 0.0 else None

    @property
    def growth(self) -> float:
        """Give how far the peak lies above the usual value, as a share of that; infinite above zero."""
        return (self.peak - self.level) / abs(self.level) if self.level else math.inf


@dataclass(frozen=True, slots=True)
class Size:
    """What a rise must be to be worth a word, besides being no noise.

    Attributes:
        ratio: Times the usual value; under zero, as far above it.
        spreads: Robust standard deviations.
        of_start: Share of the value that the run began with.
    """

    ratio: float
    spreads: float
    of_start: float = 0.0


def logarithmic(values: Floats) -> Floats:
    """Give logarithms where every value is positive, so that noise is as large everywhere; else the values."""
    return np.log(values) if len(values) and bool((values > 0.0).all()) else values


def find_spikes(signal: Signal, size: Size, chance: float) -> tuple[Spike, ...]:
    """Find the rises of a finite series that noise does not bring about, in the order of steps.

    Args:
        signal: Finite values.
        size: How large they must be.
        chance: That noise alone shows any.
    """
    values = logarithmic(signal.values)
    marks = np.zeros(len(values), dtype=bool)
    spreads = np.zeros(len(values))
    levels = np.full(len(values), np.nan)
    for scale in _SCALES:
        if len(values) // scale >= SHORTEST:
            _mark(values, scale, size, chance / len(_SCALES), (marks, spreads, levels))
    if len(values) >= SHORTEST:
        _mark_pushes(values, size, chance / len(_SCALES), (marks, spreads, levels))
    spikes = [_spike(signal, run, spreads, levels) for run in runs(marks, _JOINED)]
    start = float(np.median(signal.values[: SHORTEST // 2])) if len(values) else 0.0
    return tuple(
        spike
        for spike in spikes
        if spike is not None
        and spike.spreads >= size.spreads
        and spike.growth >= size.ratio - 1.0
        and spike.peak - spike.level >= size.of_start * abs(start)
    )


def _mark(
    values: Floats, scale: int, size: Size, chance: float, found: tuple[Marks, Floats, Floats]
) -> None:
    """Mark what sticks out of the medians of `scale` values: by its size, or by how long it lasts."""
    marks, spreads, levels = found
    whole = len(values) // scale * scale
    medians = np.median(values[:whole].reshape(-1, scale), axis=1)
    around = surroundings(medians)
    if around is None or not (around.above >= min(size.spreads, SHORTEST_ROW)).any():
        return
    high = bool((around.above >= size.spreads).any())
    least = max(outlier_size(around, chance / 4.0), size.spreads) if high else math.inf
    out = (around.above >= least) | lasting(around.above, around.below, chance)
    for place in np.flatnonzero(out):
        span = slice(int(around.places[place]) * scale, (int(around.places[place]) + 1) * scale)
        marks[span] = True
        spreads[span] = np.maximum(spreads[span], around.above[place])
        levels[span] = np.fmin(levels[span], around.level[place])


def _mark_pushes(
    values: Floats, size: Size, chance: float, found: tuple[Marks, Floats, Floats]
) -> None:
    """Mark where noise that remembers itself was pushed: what the value before does not explain.

    In such noise a spike begins with one large push, while few of its values are independent of each other.
    What began so must come back, or it is a new level.
    """
    marks, spreads, levels = found
    around = surroundings(values)
    if around is None:
        return
    usual = np.clip(around.above, -3.0, 3.0)
    usual = usual - usual.mean()
    memory = float(usual[1:] @ usual[:-1]) / max(float(usual @ usual), 1e-12)
    if memory < _REMEMBERS:
        return
    pushes = surroundings(_pushes(values, memory, around))
    if pushes is None or not (pushes.above >= size.spreads).any():
        return
    least = max(outlier_size(pushes, chance / 2.0), size.spreads)
    for place in np.flatnonzero(pushes.above >= least):
        at = int(pushes.places[place]) + 1
        here = at - int(around.places[0])
        if here >= 0 and _came_back(values, at):
            marks[at] = True
            spreads[at] = max(spreads[at], pushes.above[place])
            levels[at] = np.fmin(levels[at], around.level[here])


def _came_back(values: Floats, at: int) -> bool:
    """Tell whether the values after `at` soon lie nearer to those before it than to the one there."""
    before = float(np.median(values[max(0, at - _RETURNED) : at]))
    after = values[at + 1 : at + 1 + _SOON]
    if len(after) < _RETURNED:
        return False
    medians = np.median(np.lib.stride_tricks.sliding_window_view(after, _RETURNED), axis=1)
    return float(medians.min()) < (before + float(values[at])) / 2.0


def _pushes(values: Floats, memory: float, around: Surroundings) -> Floats:
    """Give what the value before does not explain, from the second value on.

    After one that sticks out it may be that this one was remembered or that it was not: what explains more counts.
    Else a single value up would be followed by a push down, as if the noise had such tails.
    """
    before = values[:-1]
    pushes: Floats = values[1:] - memory * before
    out = around.places[np.maximum(around.above, around.below) >= _STANDS_OUT]
    out = out[out < len(before)]
    usual = around.level[out - around.places[0]]
    expected = (1.0 - memory) * usual
    forgotten = values[out + 1] - memory * usual
    closer = np.abs(forgotten - expected) < np.abs(pushes[out] - expected)
    pushes[out] = np.where(closer, forgotten, pushes[out])
    return pushes


def _spike(signal: Signal, run: tuple[int, int], spreads: Floats, levels: Floats) -> Spike | None:
    """Describe one rise; None for one that lasts to the end, of which nobody knows whether it comes back."""
    first, last = run
    if last >= len(signal.values) - 2:
        return None
    peak = first + int(np.argmax(signal.values[first : last + 1]))
    level = float(np.nanmin(levels[first : last + 1]))
    if bool((signal.values > 0.0).all()):
        level = float(np.exp(level))
    return Spike(
        first_step=int(signal.steps[first]),
        last_step=int(signal.steps[last]),
        peak_step=int(signal.steps[peak]),
        peak=float(signal.values[peak]),
        level=level,
        spreads=float(spreads[first : last + 1].max()),
    )
