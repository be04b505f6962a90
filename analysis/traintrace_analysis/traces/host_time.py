"""A trace without a device: what the host's operators and its communication backend tell, and no more.

Operators are the framework's; what Python does between them is in no event. So "exposed" here means that no operator
ran meanwhile, and it includes waiting for the other ranks.
"""

import numpy as np

from traintrace_analysis.step_window import Marks
from traintrace_analysis.traces.device_time import DeviceTime
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import host_communication, starts_of_collectives
from traintrace_analysis.traces.steps import TraceSteps, measured_span
from traintrace_analysis.traces.trace import ANNOTATION, OPERATOR, Trace


def host_time(trace: Trace, steps: TraceSteps) -> DeviceTime:
    """Give the time of the host as if it were the device; nothing can be said about why it was idle."""
    span = Intervals.one(*measured_span(trace, steps))
    communication = _union(trace, talks_on_host(trace)) & span
    compute = _work(trace) & span
    exposed = communication - compute
    busy = communication | compute
    return DeviceTime(
        device=None,
        span_ns=span.total_ns,
        busy_ns=busy.total_ns,
        compute_ns=compute.total_ns,
        communication_ns=communication.total_ns,
        overlapped_ns=communication.total_ns - exposed.total_ns,
        exposed_ns=exposed.total_ns,
        copy_ns=0,
        idle_ns=span.total_ns - busy.total_ns,
        host_bound_ns=None,
        waiting_ns=None,
        streams={},
        steps=steps,
        exposed=exposed,
    )


def talks_on_host(trace: Trace) -> Marks:
    """Mark the ranges in which a backend on the host communicates, waiting for other ranks included."""
    marks: Marks = (trace.activity == ANNOTATION) & trace.called(host_communication(trace.names))
    return marks


def _work(trace: Trace) -> Intervals:
    """Give when an operator ran on any thread; one that starts a collective, or waits for it, is no work inside."""
    starts = trace.called(starts_of_collectives(trace.names))
    work = Intervals.nothing()
    for thread in np.unique(trace.thread[trace.activity == OPERATOR]):
        here = (trace.activity == OPERATOR) & (trace.thread == thread)
        work |= _union(trace, here & ~starts) - _union(trace, here & starts)
    return work


def _union(trace: Trace, which: Marks) -> Intervals:
    starts = trace.start_ns[which]
    return Intervals.union(starts, starts + trace.duration_ns[which])
