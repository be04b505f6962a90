"""What the lens on communication holds, for `Analysis`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from traintrace_analysis.traces.bubble import Bubble
from traintrace_analysis.traces.summary import TraceAnalysis


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A pipeline of stages on ranks: its bubble, and whether traces or the regions of the loop tell it."""

    source: Literal["trace", "regions"]
    bubble: Bubble


@dataclass(frozen=True, slots=True, eq=False)
class Communication:
    """What is known of the communication of a run.

    Attributes:
        waiting_ms: Mean waiting for other ranks in a step, by rank; empty where none was marked.
        shared_ms: Mean of the least that any rank waits: what nobody is to blame for. None where unknown.
        traces: What the traces say; None without any.
        pipeline: None where no pipeline is marked.
    """

    waiting_ms: Mapping[int, float]
    shared_ms: float | None
    traces: TraceAnalysis | None
    pipeline: Pipeline | None
