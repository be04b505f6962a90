"""The values that one rank logged, as series by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.convergence.names import gradient_norm, training_loss
from traintrace_analysis.step_window import Floats, Ints, Marks

_MOST: Final = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """One logged value over the steps at which it was logged.

    Attributes:
        steps: Ascending and unique. values: as long; may be infinite or NaN.
    """

    name: str
    steps: Ints
    values: Floats

    @property
    def finite(self) -> Marks:
        """Tell which values are finite."""
        marks: Marks = np.isfinite(self.values)
        return marks

    def until(self, step: int | None) -> "Signal":
        """Give what was logged before `step`; all of it for None."""
        if step is None:
            return self
        kept = self.steps < step
        return Signal(self.name, self.steps[kept], self.values[kept])

    def sound(self) -> "Signal":
        """Give the finite values; beyond 1e100, where sums of squares end, as that."""
        kept = self.finite
        return Signal(self.name, self.steps[kept], np.clip(self.values[kept], -_MOST, _MOST))


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """What one rank logged, and which of it tells how training goes."""

    rank: int
    signals: Mapping[str, Signal]
    loss: Signal | None
    grad_norm: Signal | None


def logged_by(ranks: Sequence[RankFacts], preferred: int | None) -> Logged | None:
    """Give what the `preferred` rank logged; where it logged no loss, the lowest rank that did.

    Steps that were abandoned do not count. Of several values of a name at one step the last one stays.
    """
    order = sorted(ranks, key=lambda rank: (rank.rank != preferred, rank.rank))
    read = [_read(rank) for rank in order if rank.scalars]
    for logged in read:
        if logged.loss is not None:
            return logged
    return next((one for one in read if one.grad_norm is not None), read[0] if read else None)


def _read(rank: RankFacts) -> Logged:
    columns: dict[str, tuple[list[int], list[float]]] = {}
    first = rank.totals.steps_abandoned
    for scalar in rank.scalars:
        if scalar.step <= first:
            continue
        found = columns.get(scalar.name)
        if found is None:
            found = columns[scalar.name] = ([], [])
        found[0].append(scalar.step)
        found[1].append(scalar.value)
    signals = {name: _signal(name, *found) for name, found in columns.items()}
    loss, norm = training_loss(signals), gradient_norm(signals)
    return Logged(
        rank.rank,
        signals,
        None if loss is None else signals[loss],
        None if norm is None else signals[norm],
    )


def _signal(name: str, steps: list[int], values: list[float]) -> Signal:
    places = np.asarray(steps, dtype=np.int64)
    numbers = np.asarray(values, dtype=np.float64)
    if len(places) > 1 and not (np.diff(places) > 0).all():
        order = np.argsort(places, kind="stable")
        places, numbers = places[order], numbers[order]
        last = np.append(np.diff(places) > 0, True)
        places, numbers = places[last], numbers[last]
    return Signal(name, places, numbers)
