"""How often each kernel ran and how long: the table that two traces are compared by."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.host_time import talks_on_host
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import host_communication, starts_of_collectives
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
    start, end = measured_span(trace, steps)
    inside = (trace.start_ns < end) & (trace.end_ns > start)
    talks = communicates(trace)
    groups: list[tuple[Sort, Marks]] = [
        ("compute", (trace.activity == KERNEL) & ~talks),
        ("communication", talks),
        ("copy", (trace.activity == MEMCPY) | (trace.activity == MEMSET)),
    ]
    if not trace.on_device.any():
        groups = [("operator", _outermost(trace)), ("communication", talks_on_host(trace))]
    clipped = np.minimum(trace.end_ns, end) - np.maximum(trace.start_ns, start)
    table = [use for sort, marks in groups for use in _uses(trace, sort, marks & inside, clipped)]
    return tuple(sorted(table, key=lambda use: (-use.total_ns, use.name)))


def range_table(trace: Trace, steps: TraceSteps) -> tuple[KernelUse, ...]:
    """Give the named ranges on the host in the measured span, e.g. `record_function("forward")`, longest first.

    A range inside one of its own name is part of it. Marks of steps and of communication are no such ranges.
    """
    start, end = measured_span(trace, steps)
    chosen = (trace.activity == ANNOTATION) & ~trace.called(host_communication(trace.names))
    chosen &= ~trace.called(step_marks(trace.names))
    chosen &= (trace.start_ns < end) & (trace.end_ns > start)
    span = Intervals.one(start, end)
    uses = []
    for name in np.unique(trace.name[chosen]):
        mine = chosen & (trace.name == name)
        covered = Intervals.union(trace.start_ns[mine], trace.end_ns[mine]) & span
        uses.append(KernelUse(trace.names[name], "range", int(mine.sum()), covered.total_ns))
    return tuple(sorted(uses, key=lambda use: (-use.total_ns, use.name)))


def _uses(trace: Trace, sort: Sort, which: Marks, clipped: Ints) -> list[KernelUse]:
    names, places, counts = np.unique(trace.name[which], return_inverse=True, return_counts=True)
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, places, clipped[which])
    return [
        KernelUse(trace.names[name], sort, int(count), int(total))
        for name, count, total in zip(names, counts, totals, strict=True)
    ]


def _outermost(trace: Trace) -> Marks:
    """Mark operators that lie in no other one of their thread."""
    works = (trace.activity == OPERATOR) & ~trace.called(starts_of_collectives(trace.names))
    index = np.flatnonzero(works)
    index = index[
        np.lexsort((-trace.duration_ns[index], trace.start_ns[index], trace.thread[index]))
    ]
    marks = np.zeros(len(works), np.bool_)
    for thread in np.unique(trace.thread[index]):
        mine = index[trace.thread[index] == thread]
        reached = np.maximum.accumulate(trace.end_ns[mine])
        outer = np.ones(len(mine), np.bool_)
        outer[1:] = trace.start_ns[mine][1:] >= reached[:-1]
        marks[mine[outer]] = True
    return marks
