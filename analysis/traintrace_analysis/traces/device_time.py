"""Where the time of each device went: compute, communication hidden or exposed, copies, idle and why.

span  =  busy + idle
busy  =  union of all that ran on the device, whatever the stream
communication = overlapped (a compute kernel ran on the same device meanwhile) + exposed
idle  =  host-bound (nothing was queued) + waiting (something was, or the host stood in a synchronisation)
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import communication_kernels, synchronising_calls
from traintrace_analysis.traces.launches import (
    Launches,
    find_launches,
    steps_on_device,
    tells_launches,
)
from traintrace_analysis.traces.steps import TraceSteps, measured_span
from traintrace_analysis.traces.trace import CALL, KERNEL, Trace


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTime:
    """One device of one trace. All in ns; unions over the device's streams, so nothing counts twice.

    Attributes:
        device: Its number; None for the host itself, where nothing ran on a device.
        copy_ns: Copies and fills. They may run beside kernels, and hide no communication.
        exposed_ns: Communication during which no compute kernel ran on this device.
        host_bound_ns: Idle with nothing queued: the host had launched nothing yet. waiting_ns: idle with work
            queued that waits for something else, or while the host stood in a synchronisation. None both where
            the trace does not tell when kernels were launched.
        streams: Busy time by stream; the streams of one device overlap.
        steps: As this device did them; none where none are marked.
        exposed: The exposed moments themselves.
    """

    device: int | None
    span_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    overlapped_ns: int
    exposed_ns: int
    copy_ns: int
    idle_ns: int
    host_bound_ns: int | None
    waiting_ns: int | None
    streams: Mapping[int, int]
    steps: TraceSteps
    exposed: Intervals

    @property
    def exposed_by_step(self) -> Ints:
        """Give the exposed communication in each step [ns]."""
        return self.exposed.within(self.steps.start_ns, self.steps.end_ns)


def device_times(trace: Trace, steps: TraceSteps) -> tuple[DeviceTime, ...]:
    """Give the time of every device in a trace, over its measured span; none if nothing ran on a device."""
    launches = find_launches(trace)
    return tuple(_time_of(trace, device, steps, launches) for device in trace.devices)


def communicates(trace: Trace) -> Marks:
    """Mark the kernels that move data between ranks."""
    marks: Marks = (trace.activity == KERNEL) & trace.called(communication_kernels(trace.names))
    return marks


def _time_of(trace: Trace, device: int, steps: TraceSteps, launches: Launches) -> DeviceTime:
    here = trace.on_device & (trace.device == device)
    own_steps = steps_on_device(trace, steps, launches, here)
    span = Intervals.one(*measured_span(trace, own_steps))
    is_kernel, talks = trace.activity == KERNEL, communicates(trace)
    communication = _union(trace, here & talks) & span
    compute = _union(trace, here & is_kernel & ~talks) & span
    copies = _union(trace, here & ~is_kernel) & span
    busy = communication | compute | copies
    idle = span - busy
    exposed = communication - compute
    queued = _queued(trace, launches, here)
    waiting = None if queued is None else (idle & (queued | _synchronising(trace))).total_ns
    return DeviceTime(
        device=device,
        span_ns=span.total_ns,
        busy_ns=busy.total_ns,
        compute_ns=compute.total_ns,
        communication_ns=communication.total_ns,
        overlapped_ns=communication.total_ns - exposed.total_ns,
        exposed_ns=exposed.total_ns,
        copy_ns=copies.total_ns,
        idle_ns=idle.total_ns,
        host_bound_ns=None if waiting is None else idle.total_ns - waiting,
        waiting_ns=waiting,
        streams={
            int(stream): (_union(trace, here & (trace.stream == stream)) & span).total_ns
            for stream in np.unique(trace.stream[here])
        },
        steps=own_steps,
        exposed=exposed,
    )


def _union(trace: Trace, which: Marks) -> Intervals:
    starts = trace.start_ns[which]
    return Intervals.union(starts, starts + trace.duration_ns[which])


def _queued(trace: Trace, launches: Launches, here: Marks) -> Intervals | None:
    """Give when something was queued on the device and did not run yet; None where launches are not known.

    All kernels of a launched graph are queued from the end of that one launch on.
    """
    if not tells_launches(launches, here):
        return None
    known = here & launches.known
    return Intervals.union(launches.end_ns[known], trace.start_ns[known])


def _synchronising(trace: Trace) -> Intervals:
    return _union(trace, (trace.activity == CALL) & trace.called(synchronising_calls(trace.names)))
