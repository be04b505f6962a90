"""The bubble of a pipeline of stages: how much of its ranks' time is idle, against what the schedule costs anyway.

With p ranks that each hold v stages and m micro-batches, all passes equally long, a rank works for v m passes and
the last one starts p - 1 passes later, whatever the order in which it runs them:

    GPipe, 1F1B           (p - 1) / (m + p - 1)       Huang et al. 2019; Narayanan et al. 2019
    interleaved 1F1B    (p - 1) / (v m + p - 1)       Narayanan et al. 2021, section 2.2: the ratio of idle to
                                                      ideal time is (p - 1) / (v m)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.traces.intervals import Intervals

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
