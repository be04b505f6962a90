"""When the host launched what a device did, and from that the steps as the device did them.

The host runs ahead of a device and may end its steps long before the work of them is done. So a step lasts on a
device until the last kernel that was launched before the step's end is done:

    host    | step 1 | step 2 |
    device    [ 1 ][     1    ][   2    ][ 2 ]
              |  step 1       |  step 2      |
"""

from dataclasses import dataclass

import numpy as np

from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.thresholds import limit
from traintrace_analysis.traces.steps import TraceSteps
from traintrace_analysis.traces.trace import CALL, KERNEL, UNKNOWN, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """The calls that launched a trace's device activities, one entry for each event of the trace.

    Attributes:
        known: Device activities whose launch is in the trace; the other columns mean nothing elsewhere.
        start_ns, end_ns: Of the call. All kernels of a launched graph have the one call of that launch.
    """

    known: Marks
    start_ns: Ints
    end_ns: Ints


def find_launches(trace: Trace) -> Launches:
    """Find the launch of each device activity by the correlation that both share."""
    calls = np.flatnonzero((trace.activity == CALL) & (trace.correlation != UNKNOWN))
    calls = calls[np.lexsort((trace.start_ns[calls], trace.correlation[calls]))]
    ids = trace.correlation[calls]
    known = trace.on_device & (trace.correlation != UNKNOWN)
    if not len(calls):
        return Launches(np.zeros(len(known), np.bool_), trace.start_ns, trace.end_ns)
    place = np.minimum(np.searchsorted(ids, trace.correlation), len(ids) - 1)
    known &= ids[place] == trace.correlation
    return Launches(known, trace.start_ns[calls][place], trace.end_ns[calls][place])


def tells_launches(launches: Launches, here: Marks) -> bool:
    """Tell whether the launches of the marked activities are known, but for a few."""
    found = int((launches.known & here).sum())
    return found > 0 and found >= limit("launches_known") * int(here.sum())


def steps_on_device(trace: Trace, steps: TraceSteps, launches: Launches, here: Marks) -> TraceSteps:
    """Give the steps as the marked activities of a device did them; as the host did where launches are not known."""
    kernels = here & (trace.activity == KERNEL) & launches.known
    if not len(steps) or not kernels.any() or not tells_launches(launches, here):
        return steps
    order = np.argsort(launches.start_ns[kernels], kind="stable")
    launched = launches.start_ns[kernels][order]
    done = np.maximum.accumulate(trace.end_ns[kernels][order])

    def reached(borders: Ints) -> Ints:
        """Give when all was done that had been launched before each border, or the border itself if later."""
        before = np.searchsorted(launched, borders, side="left")
        moved: Ints = np.where(before > 0, np.maximum(borders, done[before - 1]), borders)
        return moved

    return TraceSteps(steps.numbers, reached(steps.start_ns), reached(steps.end_ns), steps.ours)
