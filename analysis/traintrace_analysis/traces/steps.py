"""Which part of a trace is measured, and where its steps begin and end."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.trace import ANNOTATION, CALL, OPERATOR, Trace

# torch.profiler's own mark counts from the start of the profile; ours has the number of the run's step.
_STEP: Final = re.compile(r"^(traintrace\.step|ProfilerStep)#(\d+)$")


@dataclass(frozen=True, slots=True, eq=False)
class TraceSteps:
    """The steps of a trace.

    Attributes:
        numbers: Of the run's steps where `ours`, else as the profiler counts them.
        start_ns, end_ns: On the host thread that trains, or as a device did them.
        ours: True if the steps were marked by the tracer.
    """

    numbers: tuple[int, ...]
    start_ns: Ints
    end_ns: Ints
    ours: bool

    def __len__(self) -> int:
        return len(self.numbers)


def step_marks(names: Iterable[str]) -> Marks:
    """Mark the names that mark steps."""
    return np.array([_STEP.match(name) is not None for name in names], dtype=np.bool_)


def find_steps(trace: Trace) -> TraceSteps:
    """Find the marked steps: ours if there are any, else those of the profiler's schedule."""
    matches = [_STEP.match(name) for name in trace.names]
    for ours, word in ((True, "traintrace.step"), (False, "ProfilerStep")):
        numbers = np.array(
            [int(m[2]) if m and m[1] == word and len(m[2]) < 18 else -1 for m in matches], np.int64
        )
        if not (numbers >= 0).any():
            continue
        which = trace.activity == ANNOTATION
        which &= trace.called(numbers >= 0)
        if not which.any():
            continue
        of_events = numbers[trace.name[which]]
        starts, ends = trace.start_ns[which], trace.end_ns[which]
        # The first mark of a number counts; a copy of the event, or of the thread, adds no step.
        order = np.lexsort((starts, of_events))
        first = np.concatenate(([True], np.diff(of_events[order]) != 0))
        chosen = order[first]
        chosen = chosen[np.argsort(starts[chosen], kind="stable")]
        return TraceSteps(
            tuple(int(n) for n in of_events[chosen]), starts[chosen], ends[chosen], ours
        )
    nothing = np.empty(0, np.int64)
    return TraceSteps((), nothing, nothing, False)


def measured_span(trace: Trace, steps: TraceSteps) -> tuple[int, int]:
    """Give what is measured [ns]: the marked steps, else all that ran on devices, else all host work."""
    if len(steps):
        return int(steps.start_ns.min()), int(steps.end_ns.max())
    chosen = trace.on_device
    if not chosen.any():
        chosen = (
            (trace.activity == OPERATOR) | (trace.activity == CALL) | (trace.activity == ANNOTATION)
        )
    if not chosen.any():
        return 0, 0
    return int(trace.start_ns[chosen].min()), int(trace.end_ns[chosen].max())
