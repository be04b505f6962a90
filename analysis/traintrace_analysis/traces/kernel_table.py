"""How often each kernel ran and how long: the table that two traces are compared by."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.host_time import talks_on_host
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import host_communication, starts_of_collectives
from traintrace_analysis.traces.launches import find_launches, steps_on_device
from traintrace_analysis.traces.steps import TraceSteps, measured_span, step_marks
from traintrace_analysis.traces.trace import ANNOTATION, KERNEL, MEMCPY, MEMSET, OPERATOR, Trace

Sort = Literal["compute", "communication", "copy", "operator", "range"]


@dataclass(frozen=True, slots=True)
class KernelUse:
    """One kernel, copy or operator of a trace, by name.

    Attributes:
        sort: What it is. count: how often it ran.
        total_ns: Sum of its durations. Runs on several streams at once add up here, which is work and no
            elapsed time.
    """

    name: str
    sort: Sort
    count: int
    total_ns: int


def kernel_table(trace: Trace, steps: TraceSteps) -> tuple[KernelUse, ...]:
    """Give what ran on the devices in the measured span, longest first; the host's work if nothing did.

    Of the host's operators only the outermost count: an operator inside another one is part of it.
    """
    start, end = _measured_spans(trace, steps)
    inside = _inside(trace, start, end)
    talks = communicates(trace)
    groups: list[tuple[Sort, Marks]] = [
        ("compute", (trace.activity == KERNEL) & ~talks),
        ("communication", talks),
        ("copy", (trace.activity == MEMCPY) | (trace.activity == MEMSET)),
    ]
    if not trace.on_device.any():
        groups = [
            ("operator", _outermost(trace, _works(trace))),
            ("communication", talks_on_host(trace)),
        ]
    clipped: Ints = np.minimum(trace.end_ns, end) - np.maximum(trace.start_ns, start)
    table = [use for sort, marks in groups for use in _uses(trace, sort, marks & inside, clipped)]
    return tuple(sorted(table, key=lambda use: (-use.total_ns, use.name)))


def range_table(trace: Trace, steps: TraceSteps) -> tuple[KernelUse, ...]:
    """Give the named ranges on the host in the measured span, e.g. `record_function("forward")`, longest first.

    A range inside one of its own name and thread is part of it, and what runs on several threads at once takes
    its time once. Marks of steps and of communication are no such ranges.
    """
    start, end = measured_span(trace, steps)
    chosen = (trace.activity == ANNOTATION) & ~trace.called(host_communication(trace.names))
    chosen &= ~trace.called(step_marks(trace.names))
    chosen &= _inside(trace, np.int64(start), np.int64(end))
    span = Intervals.one(start, end)
    uses = []
    for name in np.unique(trace.name[chosen]):
        mine = chosen & (trace.name == name)
        covered = Intervals.union(trace.start_ns[mine], trace.end_ns[mine]) & span
        count = int(_outermost(trace, mine).sum())
        uses.append(KernelUse(trace.names[name], "range", count, covered.total_ns))
    return tuple(sorted(uses, key=lambda use: (-use.total_ns, use.name)))


def _measured_spans(trace: Trace, steps: TraceSteps) -> tuple[Ints, Ints]:
    """Give for each event what is measured where it ran: the steps as its device did them, or as the host did."""
    start, end = measured_span(trace, steps)
    starts, ends = np.full(len(trace.name), start), np.full(len(trace.name), end)
    launches = find_launches(trace)
    for device in trace.devices:
        here = trace.on_device & (trace.device == device)
        own_steps = steps_on_device(trace, steps, launches, here)
        starts[here], ends[here] = measured_span(trace, own_steps)
    return starts, ends


def _inside(trace: Trace, start: Ints | np.int64, end: Ints | np.int64) -> Marks:
    """Mark the events of which any moment is measured; one without a length belongs to where it begins."""
    marks: Marks = (trace.start_ns < end) & ((trace.end_ns > start) | (trace.start_ns == start))
    return marks


def _uses(trace: Trace, sort: Sort, which: Marks, clipped: Ints) -> list[KernelUse]:
    names, places, counts = np.unique(trace.name[which], return_inverse=True, return_counts=True)
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, places, clipped[which])
    return [
        KernelUse(trace.names[name], sort, int(count), int(total))
        for name, count, total in zip(names, counts, totals, strict=True)
    ]


def _works(trace: Trace) -> Marks:
    marks: Marks = (trace.activity == OPERATOR) & ~trace.called(starts_of_collectives(trace.names))
    return marks


def _outermost(trace: Trace, which: Marks) -> Marks:
    """Mark those of the marked events that lie in no other one of their thread."""
    index = np.flatnonzero(which)
    index = index[
        np.lexsort((-trace.duration_ns[index], trace.start_ns[index], trace.thread[index]))
    ]
    marks = np.zeros(len(which), np.bool_)
    for thread in np.unique(trace.thread[index]):
        mine = index[trace.thread[index] == thread]
        reached = np.maximum.accumulate(trace.end_ns[mine])
        outer = np.ones(len(mine), np.bool_)
        outer[1:] = trace.start_ns[mine][1:] >= reached[:-1]
        marks[mine[outer]] = True
    return marks
