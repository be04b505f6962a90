"""How much of a step is communication that nothing hides: by a trace where there is one, else by waits."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from traintrace_analysis.communication import pipeline_of
from traintrace_analysis.context import Context, Weight, weigh
from traintrace_analysis.rules.process.delay import lacks_cores
from traintrace_analysis.rules.shared_waits import shared_waits
from traintrace_analysis.rules.step_time.apart import apart_from_others
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.traces import TraceAnalysis

ALONE: Final = "one rank trains"


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """Communication that the step waits for.

    Attributes:
        source: "trace", or "waits" of ranks for each other.
        share: Of step time, 0 to 1. ms, step_ms: mean of a step.
        late_share: Part of the exposed communication in the traces that was waiting for late ranks, and is
            not in `share`; None where it is not known.
        hidden_share: Part of all communication that compute hides; None without a trace.
        weight: The evidence of the steps; None with a trace.
        cause_ns: Ranks by steady steps, in ns; None with a trace.
    """

    source: Literal["trace", "waits"]
    share: float
    ms: float
    step_ms: float
    late_share: float | None = None
    hidden_share: float | None = None
    weight: Weight | None = None
    cause_ns: Floats | None = None


def find_exposure(context: Context) -> Exposure | None:
    """Give the exposed communication; None where it is not known, or a rank explains the waiting."""
    of_trace = exposure_of_traces(context.traffic)
    if of_trace is not None:
        blamed = context.comparison is not None and context.comparison.stragglers
        return None if blamed and of_trace.late_share is None else of_trace
    waits = shared_waits(context)
    if waits is None or pipeline_of(context) is not None:  # a pipeline's waits are its bubble
        return None
    if lacks_cores(context):
        return None
    window = context.window
    cause = np.tile(waits, (len(window.ranks), 1))
    cause = np.maximum(apart_from_others(context, cause, "gradient_sync", "communication"), 0.0)
    weight = weigh(window, cause, "exposed_comm_share_warning", "exposed_comm_share_critical")
    if weight is None:
        return None
    return Exposure(
        "waits", weight.share, weight.cause_ms, weight.step_ms, weight=weight, cause_ns=cause
    )


def exposure_of_traces(traffic: TraceAnalysis | None) -> Exposure | None:
    """Give the exposed communication of the devices in the traces; None where they hold none.

    A step in a trace takes longer than others, since it is profiled, and its share of communication is
    then rather too small.
    """
    if traffic is None:
        return None
    exposed = late = communication = spans = steps = 0.0
    known = True
    for trace in traffic.traces:
        if trace.host_only or not trace.communicates:
            continue
        for number, one in enumerate(trace.devices):
            exposed += one.exposed_ns
            communication += one.communication_ns
            spans += one.span_ns
            steps += len(trace.steps) or 1
            known = known and trace.late_wait_ns is not None
            late += 0 if trace.late_wait_ns is None else trace.late_wait_ns[number]
    if not spans or not communication:
        return None
    left = exposed - late
    return Exposure(
        "trace",
        share=left / spans,
        ms=left / steps / 1e6,
        step_ms=spans / steps / 1e6,
        late_share=late / exposed if known and exposed else None,
        hidden_share=1.0 - exposed / communication,
    )


def explained_by_late_ranks(exposure: Exposure) -> bool:
    """Tell whether most of what is exposed is waiting for ranks that come late."""
    return (exposure.late_share or 0.0) >= limit("late_rank_share")
