"""The bubble of a pipeline of stages: how much of its ranks' time is idle, against what the schedule costs anyway.

With p ranks that each hold v stages and m micro-batches, all passes equally long, a rank works for v m passes and
the last one starts p - 1 passes later, whatever the order in which it runs them:

    GPipe, 1F1B           (p - 1) / (m + p - 1)       Huang et al. 2019; Narayanan et al. 2019
    interleaved 1F1B    (p - 1) / (v m + p - 1)       Narayanan et al. 2021, section 2.2: the ratio of idle to
                                                      ideal time is (p - 1) / (v m)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Marks
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.steps import find_steps
from traintrace_analysis.traces.trace import ANNOTATION, CALL, KERNEL, UNKNOWN, Trace

# What torch.distributed.pipelining calls its passes (stage, pass, micro-batch), and the regions of our own.
_ACTION: Final = re.compile(r"^PP:(\d+)(F|B|I|W)(\d+)$")
_PLAIN: Final = re.compile(r"^(Forward|Backward) (\d+)$")
_REGION: Final = re.compile(r"^pipeline\.stage(\d+)\.(forward|backward)$")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a pipeline.

    Attributes:
        ranks: p, the ranks that the stages of one pipeline lie on. micro_batches: m per step.
        stages_per_rank: v; 1 for GPipe and 1F1B, more for interleaved schedules.
    """

    ranks: int
    micro_batches: int
    stages_per_rank: int = 1

    @property
    def minimum(self) -> float:
        """Give the least share of idle time, 0 to 1, that a schedule of this shape can have."""
        return (self.ranks - 1) / (self.stages_per_rank * self.micro_batches + self.ranks - 1)


@dataclass(frozen=True, slots=True)
class Bubble:
    """What a pipeline's ranks were idle for.

    Attributes:
        achieved: Share of the ranks' time in which they did no work of their stage, 0 to 1.
        minimum: What the schedule costs anyway. Both None, and `unknown` says why, where the shape is unknown.
        uneven: The part of `achieved` that comes from stages that take longer than others.
        span_ms: Mean length of a pipeline's pass through one step. busy_ms: mean work a step by rank.
    """

    shape: Shape | None
    achieved: float
    minimum: float | None
    uneven: float
    span_ms: float
    busy_ms: Mapping[int, float]
    unknown: str = ""

    @property
    def excess(self) -> float:
        """Give the share of idle time that another order or balance could win; 0 where the shape is unknown."""
        return 0.0 if self.minimum is None else max(0.0, self.achieved - self.minimum)


def bubble_of(
    busy_ns: Mapping[int, float], span_ns: float, shape: Shape | None, unknown: str = ""
) -> Bubble | None:
    """Give the bubble from the work of each rank; None without time.

    Args:
        busy_ns: Merged work by rank, in the mean step.
        span_ns: Length of the mean step's pipeline.
        shape: None where it is not known.
        unknown: Why it is not.
    """
    if span_ns <= 0.0 or not busy_ns:
        return None
    work = np.array(list(busy_ns.values()))
    achieved = 1.0 - float(work.sum()) / (len(work) * span_ns)
    return Bubble(
        shape=shape,
        achieved=achieved,
        minimum=None if shape is None else shape.minimum,
        uneven=float((work.max() - work).sum()) / (len(work) * span_ns),
        span_ms=span_ns / 1e6,
        busy_ms={rank: ns / 1e6 for rank, ns in busy_ns.items()},
        unknown=unknown,
    )


def bubble_of_intervals(
    stages: Mapping[int, Intervals], shape: Shape | None, unknown: str = ""
) -> Bubble | None:
    """Give the bubble of one pass through the pipeline: from the first work of any rank to the last.

    Args:
        stages: When each rank worked on a stage of its own; overlaps are merged by now.
        shape: None where it is not known.
        unknown: Why it is not.
    """
    there = [one for one in stages.values() if len(one.starts)]
    if not there:
        return None
    span = max(int(one.ends[-1]) for one in there) - min(int(one.starts[0]) for one in there)
    busy = {rank: float(one.total_ns) for rank, one in stages.items()}
    return bubble_of(busy, float(span), shape, unknown)


def shape_of(
    stages: Mapping[int, frozenset[int]], micro_batches: int | None
) -> tuple[Shape | None, str]:
    """Infer a pipeline's shape from the stages that each rank holds; else say why it cannot be told.

    Several ranks that hold the same stages are replicas of the pipeline.
    """
    if len(stages) < 2:
        return None, "the stages of one rank only are known; give the traces of all ranks"
    each = {len(held) for held in stages.values()}
    every = frozenset().union(*stages.values())
    if every != frozenset(range(len(every))):
        return (
            None,
            f"stages {', '.join(map(str, sorted(every)))} are known, others must be missing",
        )
    if len(each) != 1 or len(every) % next(iter(each)):
        return None, "ranks hold different numbers of stages"
    if not micro_batches:
        return None, "the number of micro-batches is not known"
    held = next(iter(each))
    return Shape(len(every) // held, micro_batches, held), ""


def region_stage(name: str) -> tuple[int, bool] | None:
    """Give the stage of a region called `pipeline.stage<N>.forward` or `.backward`, and if it is forward."""
    match = _REGION.match(name)
    return None if match is None else (int(match[1]), match[2] == "forward")


def bubble_of_traces(traces: Sequence[Trace], offsets_ns: Sequence[int] = ()) -> Bubble | None:
    """Give the bubble of the pipeline whose passes are marked in the traces; None if there are none.

    On devices a rank's work is the compute kernels that its passes launched, on the host the marked ranges. The
    mean over the steps is taken, each from the pipeline's first pass to its last one.

    Args:
        traces: Of the ranks of the pipeline.
        offsets_ns: What brings each trace's clock to a common one; none if they have one.
    """
    marked = {row: passes for row, trace in enumerate(traces) if (passes := _passes(trace))}
    if not marked:
        return None
    ranks = {row: row if traces[row].rank is None else int(traces[row].rank or 0) for row in marked}
    stages, batches = {}, set()
    for row, passes in marked.items():
        stages[ranks[row]] = frozenset(
            ranks[row] if stage is None else stage for stage, _ in passes.values()
        )
        batches |= {batch for _, batch in passes.values()}
    shape, unknown = shape_of(stages, len(batches))
    rounds = [
        _rounds(traces[row], frozenset(passes), offsets_ns[row] if offsets_ns else 0)
        for row, passes in marked.items()
    ]
    if len({len(one) for one in rounds}) > 1:
        shape, unknown = None, "the traces hold different numbers of steps"
    found = [
        one
        for number in range(min(map(len, rounds)))
        if (one := bubble_of_intervals(
            dict(zip(ranks.values(), (mine[number] for mine in rounds), strict=True)), shape, unknown
        ))
    ]  # fmt: skip
    if not found:
        return None
    busy = {rank: float(np.mean([one.busy_ms[rank] for one in found])) * 1e6 for rank in stages}
    return bubble_of(busy, float(np.mean([one.span_ms for one in found])) * 1e6, shape, unknown)


def _passes(trace: Trace) -> dict[int, tuple[int | None, int]]:
    """Give the stage and micro-batch of the names that mark passes; the stage is None if not named."""
    passes: dict[int, tuple[int | None, int]] = {}
    for number, name in enumerate(trace.names):
        if (match := _ACTION.match(name)) is not None:
            passes[number] = int(match[1]), int(match[3])
        elif (match := _PLAIN.match(name)) is not None:
            passes[number] = None, int(match[2])
    present = set(np.unique(trace.name[trace.activity == ANNOTATION]).tolist())
    return {number: one for number, one in passes.items() if number in present}


def _rounds(trace: Trace, passes: frozenset[int], offset_ns: int) -> list[Intervals]:
    """Give when a rank worked in the pipeline, step by step, on the common clock."""
    marked = (trace.activity == ANNOTATION) & np.isin(trace.name, list(passes))
    work = Intervals.union(trace.start_ns[marked], trace.end_ns[marked])
    if trace.on_device.any():
        launched = _launched_in(trace, work)
        work = Intervals.union(trace.start_ns[launched], trace.end_ns[launched])
    steps = find_steps(trace)
    if len(steps):
        windows = list(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True))
    else:
        windows = [(int(work.starts[0]), int(work.ends[-1]))] if len(work.starts) else []
    rounds = [work & Intervals.one(start, end) for start, end in windows]
    return [Intervals(one.starts + offset_ns, one.ends + offset_ns) for one in rounds]


def _launched_in(trace: Trace, passes: Intervals) -> Marks:
    """Mark the compute kernels that were launched during a pass; all of them where launches are not known."""
    own: Marks = (trace.activity == KERNEL) & ~communicates(trace)
    calls = (trace.activity == CALL) & (trace.correlation != UNKNOWN)
    inside = passes.within(trace.start_ns[calls], trace.start_ns[calls] + 1) > 0
    ids = np.unique(trace.correlation[calls][inside])
    launched: Marks = own & np.isin(trace.correlation, ids)
    return launched if launched.any() else own
