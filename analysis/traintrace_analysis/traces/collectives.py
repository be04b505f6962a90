"""Waiting for late ranks told apart from moving data, where the traces of several ranks are given.

A collective moves data only once its last rank has come: what each rank spends in it before that is waiting.

    rank 0   [ waiting      | transfer ]
    rank 1                  [ transfer ]      came last
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.matching import Round, match_calls
from traintrace_analysis.traces.trace import UNKNOWN, Trace


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveWaits:
    """What ranks waited for each other inside collectives.

    Attributes:
        matched: Collectives that were found on all their ranks. calls: those of single ranks in them.
            unmatched: calls on single ranks that were not found on the others. Only those count that no rank can leave before all have come.
        clock_offset_ns: What was added to each trace's clock, so that collectives end together.
        waiting: Moments of waiting by trace and device, each on its own clock; `UNKNOWN` is the host.
        caused_ns: By trace, what the others waited in the collectives to which it came last.
    """

    matched: int
    calls: int
    unmatched: int
    clock_offset_ns: tuple[int, ...]
    waiting: tuple[Mapping[int, Intervals], ...]
    caused_ns: tuple[int, ...]

    def waiting_on(self, row: int, device: int | None) -> Intervals:
        """Give the moments of waiting of one device of a trace; of its host for None."""
        return self.waiting[row].get(UNKNOWN if device is None else device, Intervals.nothing())


def find_waits(traces: Sequence[Trace]) -> CollectiveWaits | None:
    """Match collectives over traces of different ranks; None for fewer than two, or if none matches.

    Where the trace of a rank that takes part is missing nobody knows who came last: such calls are unmatched.
    """
    if len(traces) < 2:
        return None
    rounds, unmatched = match_calls(traces)
    offsets = _offsets(len(traces), rounds)
    waits: list[dict[int, list[tuple[Ints, Ints]]]] = [{} for _ in traces]
    caused = np.zeros(len(traces), np.int64)
    matched = calls = 0
    for one in rounds:
        if not one.complete:
            unmatched += one.starts.size
            continue
        matched += one.starts.shape[1]
        calls += one.starts.size
        shift = offsets[list(one.rows)][:, None]
        starts, ends = one.starts, one.ends
        latest = (starts + shift).max(axis=0)
        until = np.minimum(latest - shift, ends)
        for index, (row, device) in enumerate(zip(one.rows, one.devices, strict=True)):
            waits[row].setdefault(device, []).append((starts[index], until[index]))
        waited = np.maximum(until - starts, 0).sum(axis=0)
        np.add.at(caused, np.array(one.rows)[(starts + shift).argmax(axis=0)], waited)
    if not matched:
        return None
    return CollectiveWaits(
        matched=matched,
        calls=calls,
        unmatched=unmatched,
        clock_offset_ns=tuple(int(offset) for offset in offsets),
        waiting=tuple({device: _merged(p) for device, p in mine.items()} for mine in waits),
        caused_ns=tuple(caused.tolist()),
    )


def _merged(pairs: Iterable[tuple[Ints, Ints]]) -> Intervals:
    return Intervals.union(*(np.concatenate(column) for column in zip(*pairs, strict=True)))


def _offsets(count: int, rounds: Sequence[Round]) -> Ints:
    """Give what brings each clock to that of the first trace that collectives connect it with.

    Clocks of different machines differ by milliseconds, and ranks leave such a collective together. Traces may
    share none with the first one, but with another that does.
    """
    offsets, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    largest_first = sorted(rounds, key=lambda entry: -len(entry.rows))
    for first in range(count):
        known[first] = True  # connected with no earlier one, or known by now
        while (border := _at_the_border(largest_first, known)) is not None:
            one, anchor = border
            for index, row in enumerate(one.rows):
                if not known[row]:
                    apart = one.ends[anchor] + offsets[one.rows[anchor]] - one.ends[index]
                    offsets[row] = round(float(np.median(apart - apart[0]))) + apart[0]
                    known[row] = True
    return offsets


def _at_the_border(rounds: Sequence[Round], known: Marks) -> tuple[Round, int] | None:
    """Find a collective of a trace whose clock is known with one whose clock is not, and the former's place in it."""
    for one in rounds:
        places = [index for index, row in enumerate(one.rows) if known[row]]
        if places and len(places) < len(one.rows):
            return one, places[0]
    return None
