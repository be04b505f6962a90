"""Which calls of a collective in the traces of several ranks are one and the same call.

The n-th call of a collective in its process group is the same on all its ranks, where all traces hold the same
calls. Where they do not, the steps that the tracer marked say which n-th is meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.host_time import talks_on_host
from traintrace_analysis.traces.kernel_names import JOINT, collective_of
from traintrace_analysis.traces.launches import find_launches
from traintrace_analysis.traces.steps import find_steps
from traintrace_analysis.traces.trace import UNKNOWN, Trace

# What a collective is, the group that takes part, and which of the devices of its trace it runs on.
_Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Calls of one collective that were found on several ranks.

    Attributes:
        rows: The traces. devices: the device in each of them; `UNKNOWN` on the host.
        starts, ends: By trace and call [ns], each on its own clock.
        complete: True if no rank that takes part is missing, as far as the traces say.
    """

    rows: tuple[int, ...]
    devices: tuple[int, ...]
    starts: Ints
    ends: Ints
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The calls of one collective in one trace, in order.

    Attributes:
        step: The run's step of each call; `UNKNOWN` where the tracer marked none.
        size: How many ranks take part; None where nothing says it.
        in_one_group: False where a job has several process groups and the trace does not say which one it was.
    """

    device: int
    start_ns: Ints
    end_ns: Ints
    step: Ints
    size: int | None
    in_one_group: bool


def match_calls(traces: Sequence[Trace]) -> tuple[list[Round], int]:
    """Match the joint collectives of traces of different ranks.

    Returns:
        What was matched, and the number of calls on single ranks that were not.
    """
    calls = [_calls_of(trace) for trace in traces]
    steps = [find_steps(trace) for trace in traces]
    same_steps = len({(one.ours, one.numbers) for one in steps if one.ours}) < 2
    rounds: list[Round] = []
    unmatched = 0
    for key in dict.fromkeys(key for one in calls for key in one):
        rows = tuple(row for row, one in enumerate(calls) if key in one)
        mine = [calls[row][key] for row in rows]
        total = sum(len(one.start_ns) for one in mine)
        if not same_steps or len({len(one.start_ns) for one in mine}) > 1:
            mine = _in_common_steps(mine)
        sure = len(rows) > 1 and all(one.in_one_group for one in mine)
        found = len(mine[0].start_ns) * len(rows) if sure else 0
        unmatched += total - found
        if found:
            sizes = [one.size for one in mine if one.size is not None]
            rounds.append(
                Round(
                    rows=rows,
                    devices=tuple(one.device for one in mine),
                    starts=np.array([one.start_ns for one in mine]),
                    ends=np.array([one.end_ns for one in mine]),
                    complete=all(size <= len(rows) for size in sizes),
                )
            )
    return rounds, unmatched


def _in_common_steps(calls: Sequence[_Calls]) -> list[_Calls]:
    """Leave the calls in those steps in which all traces have equally many; none where no steps are marked."""
    counted = [dict(zip(*np.unique(one.step, return_counts=True), strict=True)) for one in calls]
    common = [
        step
        for step, count in counted[0].items()
        if step != UNKNOWN and all(other.get(step) == count for other in counted)
    ]
    kept = [np.isin(one.step, common) for one in calls]
    return [
        replace(one, start_ns=one.start_ns[k], end_ns=one.end_ns[k], step=one.step[k])
        for one, k in zip(calls, kept, strict=True)
    ]


def _calls_of(trace: Trace) -> Mapping[_Key, _Calls]:
    """Give the joint collectives of a trace in order."""
    chosen: Marks = communicates(trace)
    if not chosen.any():
        chosen = talks_on_host(trace)
    index = np.flatnonzero(chosen)
    index = index[np.argsort(trace.start_ns[index], kind="stable")]
    kinds = {int(name): collective_of(trace.names[name]) for name in np.unique(trace.name[index])}
    of_calls = np.array([kinds[int(name)] for name in trace.name[index]])
    steps = _steps_of(trace)
    found: dict[_Key, _Calls] = {}
    for kind in dict.fromkeys(of_calls.tolist()):
        if kind not in JOINT:  # a root may leave before the others have come
            continue
        for group in np.unique(trace.group[index]):
            for number, device in enumerate(np.unique(trace.device[index])):
                mine = index[
                    (of_calls == kind)
                    & (trace.group[index] == group)
                    & (trace.device[index] == device)
                ]
                if not len(mine):
                    continue
                label, size = "", trace.world_size
                if group != UNKNOWN:
                    label, size = trace.groups[group], trace.group_sizes[group]
                found[kind, label, number] = _Calls(
                    device=int(device),
                    start_ns=trace.start_ns[mine],
                    end_ns=trace.end_ns[mine],
                    step=steps[mine],
                    size=size,
                    in_one_group=group != UNKNOWN or (trace.group_count or 1) < 2,
                )
    return found


def _steps_of(trace: Trace) -> Ints:
    """Give the run's step in which each event was launched or, on the host, began; `UNKNOWN` outside of steps."""
    steps = find_steps(trace)
    numbers = np.full(len(trace.name), UNKNOWN, np.int64)
    if not steps.ours:
        return numbers
    launches = find_launches(trace)
    moments = np.where(launches.known, launches.start_ns, trace.start_ns)
    place = np.searchsorted(steps.start_ns, moments, side="right") - 1
    inside = (place >= 0) & (moments < steps.end_ns[np.maximum(place, 0)])
    numbers[inside] = np.array(steps.numbers, np.int64)[place[inside]]
    return numbers
