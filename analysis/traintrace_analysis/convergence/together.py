"""Steps at which signals that are measured apart stick out together, beyond chance.

Each signal is marked where it sticks out of its own surroundings as its own noise does not (see `tails`), so a
signal with heavy tails or clusters has no more marks than any other. A meeting is a rise of the loss or of the
gradient norm with marks of other signals from one step before it to one step after.

The bound: with m marks of a signal over n steps, chance brings one of them within d steps of a given step with
probability m (2 d + 1) / n at most (of the whole run, or of the tenth of it on either side of the meeting, if marks
are denser there). So m_1 marks of a first signal meet all the others m_1 x prod(m_s (2 d + 1) / n) times on average,
d being how far their begins, or their peaks, lay apart. As many meetings as there were are a Poisson number; times
the number of sets of as many signals, its tail bounds how often chance shows the like in a run.

Three things are no meetings:

- Steps after values stopped being finite: all is different then, and nothing causes anything backwards.
- A step that is slow or large because its batch is: what the amount of data explains is taken out of the step
  time and of memory, and where the amount itself sticks out, they do not count.
- Steps that are slow because they log: only steps at which the loss was logged are compared, with each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.convergence.lasting import SHORTEST_ROW, lasting, runs
from traintrace_analysis.convergence.spikes import logarithmic
from traintrace_analysis.convergence.surroundings import SHORTEST, surroundings
from traintrace_analysis.convergence.tails import outlier_size
from traintrace_analysis.statistics import MAD_TO_SD
from traintrace_analysis.step_window import Floats, Ints
from traintrace_analysis.thresholds import limit

LEARNING: Final = ("loss", "grad_norm")
AMOUNTS: Final = ("padded_tokens", "tokens", "samples")
_DRIVEN_BY_AMOUNT: Final = ("step_time", "memory")
_JOINED: Final = 2
_FITS: Final = 3  # each without what lies far off the one before


@dataclass(frozen=True, slots=True)
class Meeting:
    """One stretch of steps at which several signals stick out.

    Attributes:
        first_step, last_step: Of the loss's or the gradient norm's rise.
        signals: Which stick out, in a fixed order: "loss", "grad_norm", "step_time", "memory", "tokens", ...
        spreads: How far each does, in robust standard deviations of its own noise.
        by_chance: Bound on how many such meetings chance would bring about in the whole run.
        of_batch: True if the amount of data of the step sticks out too: the batch is unusual.
    """

    first_step: int
    last_step: int
    signals: tuple[str, ...]
    spreads: tuple[float, ...]
    by_chance: float
    of_batch: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Marked:
    """Stretches of one signal that stick out, and how far any value does."""

    stretches: Sequence[tuple[int, int]]
    peaks: Sequence[int]
    spreads: Floats


def find_meetings(steps: Ints, signals: Mapping[str, Floats]) -> tuple[Meeting, ...]:
    """Find where signals move together, least likely first.

    Args:
        steps: Step numbers at which all signals are known, ascending.
        signals: Finite values by name: "loss" and "grad_norm", "step_time", "memory", amounts of data.
    """
    count = len(steps)
    if count < SHORTEST or not set(signals) & set(LEARNING):
        return ()
    even = {
        name: _without_amounts(values, signals) if name in _DRIVEN_BY_AMOUNT else values
        for name, values in signals.items()
    }
    marked = {name: _marked(name, values) for name, values in even.items()}
    marked = {name: one for name, one in marked.items() if one.stretches}
    found: dict[tuple[str, ...], list[tuple[int, int, tuple[float, ...], float]]] = {}
    for first, last in _rises(marked):
        present = _present(marked, first, last)
        if len(present) < 2:
            continue
        spreads = tuple(_largest(marked[name], first, last) for name in present)
        expected = _expected(marked, present, first, last, count)
        found.setdefault(present, []).append((first, last, spreads, expected))
    meetings = []
    for present, places in found.items():
        # As many meetings of one kind as there were, or more, is what chance has to bring about.
        sets = math.comb(len(marked), len(present))
        chance = sets * _at_least(len(places), max(place[3] for place in places))
        if chance <= limit("meeting_chance"):
            meetings += [
                Meeting(
                    int(steps[first]),
                    int(steps[last]),
                    present,
                    spreads,
                    chance,
                    any(name in AMOUNTS for name in present),
                )
                for first, last, spreads, _ in places
            ]
    return tuple(sorted(meetings, key=lambda one: (one.by_chance, one.first_step)))


def _rises(marked: Mapping[str, _Marked]) -> list[tuple[int, int]]:
    """Give the rises of loss and gradient norm, those within a step of each other as one."""
    stretches = sorted(
        stretch for name in LEARNING if name in marked for stretch in marked[name].stretches
    )
    joined: list[tuple[int, int]] = []
    for first, last in stretches:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _present(marked: Mapping[str, _Marked], first: int, last: int) -> tuple[str, ...]:
    present = [
        name
        for name, one in marked.items()
        if any(a <= last + 1 and b >= first - 1 for a, b in one.stretches)
    ]
    if any(name in AMOUNTS for name in present):
        present = [name for name in present if name not in _DRIVEN_BY_AMOUNT]
        amount = next(name for name in AMOUNTS if name in present)
        present = [name for name in present if name not in AMOUNTS or name == amount]
    return tuple(present)


def _expected(
    marked: Mapping[str, _Marked], present: Sequence[str], first: int, last: int, count: int
) -> float:
    """Bound how often chance would bring these signals as near to each other in the whole run."""
    near = max(1, count // 10)
    begins, peaks = zip(*(_of(marked[name], first, last) for name in present), strict=True)
    distance = min(max(begins) - min(begins), max(peaks) - min(peaks))
    width = 2.0 * max(1, distance) + 1.0
    expected = 1.0
    for place, name in enumerate(present):
        stretches = marked[name].stretches
        here = sum(a <= last + near and b >= first - near for a, b in stretches)
        chance = max(len(stretches) / count, (here - 1) / min(count, 2 * near)) * width
        # The first signal is wherever it is; the others have to come there.
        expected *= len(stretches) if place == 0 else min(1.0, chance)
    return expected


def _of(one: _Marked, first: int, last: int) -> tuple[int, int]:
    """Give begin and peak of the stretch of one signal that meets these steps."""
    return next(
        (a, peak)
        for (a, b), peak in zip(one.stretches, one.peaks, strict=True)
        if a <= last + 1 and b >= first - 1
    )


def _largest(one: _Marked, first: int, last: int) -> float:
    return float(one.spreads[max(0, first - 1) : last + 2].max())


def _marked(name: str, values: Floats) -> _Marked:
    """Mark what sticks out upwards; of amounts of data downwards too."""
    spreads = np.zeros(len(values))
    for sign in (1.0, -1.0) if name in AMOUNTS else (1.0,):
        series = logarithmic(values)
        around = surroundings(sign * series)
        if around is not None and (around.above >= SHORTEST_ROW).any():
            least = max(limit("meeting_spreads"), outlier_size(around, limit("mark_chance") / 2.0))
            out = (around.above >= least) | lasting(
                around.above, around.below, limit("mark_chance") / 2.0
            )
            spreads[around.places[out]] = around.above[out]
    stretches = runs(spreads > 0.0, _JOINED)
    peaks = [a + int(np.argmax(spreads[a : b + 1])) for a, b in stretches]
    return _Marked(stretches, peaks, spreads)


def _without_amounts(values: Floats, signals: Mapping[str, Floats]) -> Floats:
    """Take out what the amount of data explains, linearly and squared; outliers do not decide the fit."""
    amount = next((signals[name] for name in AMOUNTS if name in signals), None)
    if amount is None:
        return values
    middle = float(np.median(amount))
    wide = float(np.quantile(np.abs(amount - middle), 0.95))
    if not wide > 0.0:
        return values
    place = (amount - middle) / wide
    design = np.stack([np.ones(len(place)), place, place**2], axis=1)
    kept = np.ones(len(values), dtype=bool)
    left = values
    for _ in range(_FITS):
        fit, *_ = np.linalg.lstsq(design[kept], values[kept], rcond=None)
        left = values - design[:, 1:] @ fit[1:]
        off = np.abs(left - np.median(left))
        kept = off <= 5.0 * MAD_TO_SD * float(np.median(off)) + 1e-300
    return left


def _at_least(number: int, expected: float) -> float:
    """Give the chance of a Poisson number of this mean to reach `number`."""
    below = sum(
        math.exp(-expected) * expected**k / math.factorial(k) for k in range(min(number, 150))
    )
    # What is left of 1 after subtraction is rounding; the first term bounds it from below.
    first = math.exp(
        min(0.0, number * math.log(max(expected, 1e-300)) - expected - math.lgamma(number + 1))
    )
    return min(1.0, max(1.0 - below, first))
