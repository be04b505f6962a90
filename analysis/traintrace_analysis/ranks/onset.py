"""Ranks that became slow late in the window: they fail every test that asks both halves."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.ranks.blame import Suspect
from traintrace_analysis.ranks.departures import (
    Departures,
    measure_departures,
    median_of_others,
)
from traintrace_analysis.ranks.looks import Look, is_slow, waits_less
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit

# Where stretches begin that are tested, as shares of the window; each reaches to its end.
_STARTS: Final = (0.5, 0.65, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Unripe:
    """A row that was slow in a part of the window that is too short, or cost too little, to be called.

    Attributes:
        since: Round at which it became slow; None if it was slow earlier and is not any more.
    """

    row: int
    since: int | None


def find_onsets(
    look: Look, work: OwnWork, known: Iterable[Suspect], alpha: float
) -> tuple[list[Suspect], list[Unripe]]:
    """Find rows that have been slow since a round in the second half.

    Args:
        look: The own work.
        work: Where it comes from.
        known: Suspects who are slow all the time, who are not tested again.
        alpha: Rate of false alarms of all stretches together.

    Returns:
        Those that cost enough over the whole window, and those that do not yet.
    """
    taken = {int(row) for one in known for row in one.rows}
    suspects, unripe = [], []
    for row, since, test in _slow_at_the_end(look.own, look.waits, work, alpha):
        if row in taken:
            continue
        level = float(np.median(look.own[row, since:]))
        one = Suspect(np.array([row]), None, look.own, look.doubtful, test, row, level, since=since)
        if one.share(work) >= limit("straggler_share_warning"):
            suspects.append(one)
        else:
            unripe.append(Unripe(row, since))
    return suspects, unripe


def find_ended(look: Look, work: OwnWork, known: Iterable[Suspect], alpha: float) -> list[Unripe]:
    """Find rows that were slow up to a round in the first half, and are not any more."""
    taken = {int(row) for one in known for row in one.rows}
    waits = None if look.waits is None else look.waits[:, ::-1]
    found = _slow_at_the_end(look.own[:, ::-1], waits, work, alpha)
    return [Unripe(row, None) for row, _, _ in found if row not in taken]


def _slow_at_the_end(
    own: Floats, waits: Floats | None, work: OwnWork, alpha: float
) -> list[tuple[int, int, Departures]]:
    """Give rows that are slow since a round, the round, and the test of what follows it."""
    starts = {int(share * work.rounds) for share in _STARTS}
    starts = {start for start in starts if work.rounds - start >= limit("onset_steps")}
    grown = {start: _grown(own, start, work) for start in sorted(starts)}
    if not any(marks.any() for marks in grown.values()):
        return []
    changes, even = _level(own)
    usual = measure_departures(even)
    rows: set[int] = set()
    for start, marks in grown.items():
        if marks.any():
            tail = own[:, start:]
            test = measure_departures(tail, usual)
            slow = is_slow(tail, test, work, alpha / len(_STARTS)) & marks
            if waits is not None:
                slow &= waits_less(tail, waits[:, start:])
            rows |= {int(row) for row in np.flatnonzero(slow)}
    return [
        (row, int(changes[row]), measure_departures(own[:, changes[row] :], usual))
        for row in sorted(rows)
    ]


def _grown(own: Floats, start: int, work: OwnWork) -> Marks:
    """Mark rows whose excess is clearly larger after `start` than before."""
    before, after = own[:, :start].mean(axis=1), own[:, start:].mean(axis=1)
    before, after = before - np.median(before), after - np.median(after)
    enough = 0.5 * limit("straggler_share_warning") * float(np.median(work.step))
    grown: Marks = after - np.maximum(before, 0.0) >= np.maximum(enough, 0.5 * after)
    return grown


def _level(own: Floats) -> tuple[Ints, Floats]:
    """Give the round that parts each row best into two levels, and own work without the rise there.

    What remains shows the spread and the memory that a row has apart from its change.
    """
    logs = np.log(np.maximum(own, 1.0))
    apart = logs - median_of_others(logs)
    count = apart.shape[1]
    edge = max(2, math.ceil(0.02 * count))
    places = np.arange(edge, count - edge + 1)
    sums = np.cumsum(apart - apart.mean(axis=1, keepdims=True), axis=1)[:, places - 1]
    changes = places[(np.abs(sums) / np.sqrt(places * (count - places))).argmax(axis=1)]
    after = np.arange(count) >= changes[:, None]
    late = np.where(after, apart, 0.0).sum(axis=1) / (count - changes)
    early = np.where(after, 0.0, apart).sum(axis=1) / changes
    even: Floats = own * np.exp(-np.where(after, np.maximum(late - early, 0.0)[:, None], 0.0))
    return changes, even
