"""Waiting for late ranks told apart from moving data, where the traces of several ranks are given.

A collective moves data only once its last rank has come: what each rank spends in it before that is waiting.

    rank 0   [ waiting      | transfer ]
    rank 1                  [ transfer ]      came last
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.host_time import talks_on_host
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import JOINT, collective_of
from traintrace_analysis.traces.trace import UNKNOWN, Trace

_Key: TypeAlias = tuple[str, str]
# The traces of a collective, and by trace and call when it began and ended there.
_Round: TypeAlias = tuple[list[int], Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveWaits:
    """What ranks waited for each other inside collectives.

    Attributes:
        matched: Collectives that were found on all their ranks. unmatched: calls on single ranks that were not.
            Only those count that no rank can leave before all have come.
        clock_offset_ns: What was added to each trace's clock, so that collectives end together.
        waiting: Moments of waiting by trace, each on its own clock.
        caused_ns: By trace, what the others waited in the collectives to which it came last.
    """

    matched: int
    unmatched: int
    clock_offset_ns: tuple[int, ...]
    waiting: tuple[Intervals, ...]
    caused_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The calls of one collective in one trace, in order."""

    start_ns: Ints
    end_ns: Ints


def find_waits(traces: Sequence[Trace]) -> CollectiveWaits | None:
    """Match collectives over traces of different ranks; None for fewer than two, or if none matches.

    The n-th call of a collective in its process group is the same on all ranks. Where ranks made different
    numbers of calls nobody knows which belong together, and they count as unmatched.
    """
    if len(traces) < 2:
        return None
    calls = [_calls_of(trace) for trace in traces]
    rounds: list[_Round] = []
    unmatched = 0
    for key in dict.fromkeys(key for one in calls for key in one):
        rows = [row for row, one in enumerate(calls) if key in one]
        counts = {len(calls[row][key].start_ns) for row in rows}
        if len(rows) < 2 or len(counts) > 1:
            unmatched += sum(len(calls[row][key].start_ns) for row in rows)
            continue
        starts = np.array([calls[row][key].start_ns for row in rows])
        ends = np.array([calls[row][key].end_ns for row in rows])
        rounds.append((rows, starts, ends))
    if not rounds:
        return None
    offsets = _offsets(len(traces), rounds)
    waits: list[list[tuple[Ints, Ints]]] = [[] for _ in traces]
    caused = np.zeros(len(traces), np.int64)
    for rows, starts, ends in rounds:
        shift = offsets[rows][:, None]
        latest = (starts + shift).max(axis=0)
        until = np.minimum(latest - shift, ends)
        for index, row in enumerate(rows):
            waits[row].append((starts[index], until[index]))
        waited = np.maximum(until - starts, 0).sum(axis=0)
        np.add.at(caused, np.array(rows)[(starts + shift).argmax(axis=0)], waited)
    return CollectiveWaits(
        matched=sum(starts.shape[1] for _, starts, _ in rounds),
        unmatched=unmatched,
        clock_offset_ns=tuple(int(offset) for offset in offsets),
        waiting=tuple(_merged(pairs) for pairs in waits),
        caused_ns=tuple(caused.tolist()),
    )


def _merged(pairs: Iterable[tuple[Ints, Ints]]) -> Intervals:
    found = list(pairs)
    if not found:
        return Intervals.nothing()
    return Intervals.union(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _offsets(count: int, rounds: Sequence[_Round]) -> Ints:
    """Give what brings each clock to that of the first trace it shares a collective with.

    Clocks of different machines differ by milliseconds, and ranks leave such a collective together.
    """
    offsets, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for rows, _, ends in sorted(rounds, key=lambda entry: -len(entry[0])):
        anchor = next((index for index, row in enumerate(rows) if known[row]), 0)
        known[rows[anchor]] = True
        for index, row in enumerate(rows):
            if not known[row]:
                apart = ends[anchor] + offsets[rows[anchor]] - ends[index]
                offsets[row], known[row] = (
                    round(float(np.median(apart - apart[0]))) + apart[0],
                    True,
                )
    return offsets


def _calls_of(trace: Trace) -> Mapping[_Key, _Calls]:
    """Give the joint collectives of a trace in order, by what they are and who takes part."""
    chosen: Marks = communicates(trace)
    if not chosen.any():
        chosen = talks_on_host(trace)
    index = np.flatnonzero(chosen)
    index = index[np.argsort(trace.start_ns[index], kind="stable")]
    kinds = {int(name): collective_of(trace.names[name]) for name in np.unique(trace.name[index])}
    of_calls = np.array([kinds[int(name)] for name in trace.name[index]])
    found: dict[_Key, _Calls] = {}
    for kind in dict.fromkeys(of_calls.tolist()):
        if kind not in JOINT:  # a root may leave before the others have come
            continue
        for group in np.unique(trace.group[index]):
            mine = index[(of_calls == kind) & (trace.group[index] == group)]
            if len(mine):
                label = "" if group == UNKNOWN else trace.groups[group]
                found[kind, label] = _Calls(trace.start_ns[mine], trace.end_ns[mine])
    return found
