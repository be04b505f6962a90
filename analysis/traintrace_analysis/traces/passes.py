"""The passes of a pipeline's stages in traces: when each rank worked on them, and what bubble that makes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Marks
from traintrace_analysis.traces.bubble import Bubble, bubble_of, bubble_of_intervals, shape_of
from traintrace_analysis.traces.device_time import communicates
from traintrace_analysis.traces.intervals import Intervals
from traintrace_analysis.traces.kernel_names import receives_on_host, starts_of_collectives
from traintrace_analysis.traces.launches import find_launches, steps_on_device
from traintrace_analysis.traces.steps import TraceSteps, find_steps
from traintrace_analysis.traces.trace import ANNOTATION, KERNEL, OPERATOR, Trace

# What torch.distributed.pipelining calls its passes: stage, pass, micro-batch; or several at once in brackets.
_ACTIONS: Final = re.compile(r"^PP:(?:\d+[FBIW]\d+$|\(.*\)OVERLAP_F_B$)")
_ACTION: Final = re.compile(r"(?<!\d)(\d+)([FBIW])(\d+)(?!\d)")
_PLAIN: Final = re.compile(r"^(Forward|Backward) (\d+)$")


@dataclass(frozen=True, slots=True, eq=False)
class _Passes:
    """The passes that one trace marks.

    Attributes:
        marked: The events. stages: None stands for the one stage of a rank that is not named.
        micro_batches: Their numbers. is_split: True if backward passes are split in two.
    """

    marked: Marks
    stages: frozenset[int | None]
    micro_batches: frozenset[int]
    is_split: bool


def bubble_of_traces(traces: Sequence[Trace], offsets_ns: Sequence[int] = ()) -> Bubble | None:
    """Give the bubble of the pipeline whose passes are marked in the traces; None if there are none.

    On devices a rank's work is the compute kernels that its passes launched. On the host it is the marked ranges
    without what they wait for at their beginning, until their input has come. The mean over the steps is taken,
    each from the pipeline's first pass to its last one.

    Args:
        traces: Of the ranks of the pipeline.
        offsets_ns: What brings each trace's clock to a common one; none if they have one.
    """
    found = {row: passes for row, one in enumerate(traces) if (passes := _find_passes(one))}
    if not found:
        return None
    ranks = _ranks_of(traces)
    stages = {
        ranks[row]: frozenset(ranks[row] if stage is None else stage for stage in passes.stages)
        for row, passes in found.items()
    }
    batches = frozenset[int]().union(*(passes.micro_batches for passes in found.values()))
    shape, unknown = shape_of(stages, len(batches))
    if shape is not None and any(passes.is_split for passes in found.values()):
        shape, unknown = None, "its backward passes are split, which makes the least bubble smaller"
    steps = {row: find_steps(traces[row]) for row in found}
    if len({(one.ours, one.numbers) for one in steps.values()}) > 1:
        shape, unknown = None, "the traces hold different steps"
    rounds = {
        ranks[row]: _rounds(
            traces[row], passes.marked, steps[row], offsets_ns[row] if offsets_ns else 0
        )
        for row, passes in found.items()
    }
    bubbles = [
        one
        for number in range(min(map(len, rounds.values())))
        if (one := bubble_of_intervals(
            {rank: mine[number] for rank, mine in rounds.items()}, shape, unknown
        ))
    ]  # fmt: skip
    if not bubbles:
        return None
    busy = {rank: float(np.mean([one.busy_ms[rank] for one in bubbles])) * 1e6 for rank in stages}
    span = float(np.mean([one.span_ms for one in bubbles])) * 1e6
    return bubble_of(busy, span, shape, unknown)


def _ranks_of(traces: Sequence[Trace]) -> list[int]:
    """Give each trace its rank, and those that do not say theirs the numbers that are left."""
    said = [trace.rank for trace in traces]
    left = (number for number in range(2 * len(said)) if number not in said)
    return [next(left) if rank is None else rank for rank in said]


def _find_passes(trace: Trace) -> _Passes | None:
    held: Mapping[int, list[tuple[int | None, str, int]]] = {
        number: actions for number, name in enumerate(trace.names) if (actions := _actions_in(name))
    }
    marked: Marks = (trace.activity == ANNOTATION) & np.isin(trace.name, list(held))
    if not marked.any():
        return None
    every = [action for name in np.unique(trace.name[marked]) for action in held[int(name)]]
    return _Passes(
        marked=marked,
        stages=frozenset(stage for stage, _, _ in every),
        micro_batches=frozenset(batch for _, _, batch in every),
        is_split=any(kind in "IW" for _, kind, _ in every),
    )


def _actions_in(name: str) -> list[tuple[int | None, str, int]]:
    """Give stage, kind and micro-batch of the passes that a name marks; the stage is None if not named."""
    if _ACTIONS.match(name) is not None:
        return [(int(stage), kind, int(batch)) for stage, kind, batch in _ACTION.findall(name)]
    plain = _PLAIN.match(name)
    return [] if plain is None else [(None, plain[1][0], int(plain[2]))]


def _rounds(trace: Trace, marked: Marks, steps: TraceSteps, offset_ns: int) -> list[Intervals]:
    """Give when a rank worked in the pipeline, step by step, on the common clock."""
    if trace.on_device.any():
        launches = find_launches(trace)
        passes = Intervals.union(trace.start_ns[marked], trace.end_ns[marked])
        own: Marks = (trace.activity == KERNEL) & ~communicates(trace)
        inside = passes.within(launches.start_ns, launches.start_ns + 1) > 0
        launched = own & launches.known & inside
        chosen = launched if launched.any() else own  # all of them where launches are not known
        work = Intervals.union(trace.start_ns[chosen], trace.end_ns[chosen])
        steps = steps_on_device(trace, steps, launches, trace.on_device)
    else:
        work = _work_on_host(trace, marked)
    if len(steps):
        windows = list(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True))
    else:
        windows = [(int(work.starts[0]), int(work.ends[-1]))] if len(work.starts) else []
    rounds = [work & Intervals.one(start, end) for start, end in windows]
    return [Intervals(one.starts + offset_ns, one.ends + offset_ns) for one in rounds]


def _work_on_host(trace: Trace, marked: Marks) -> Intervals:
    """Give the passes without what they wait for: they begin with it, and no operator runs before it is over.

    What is received for a later pass goes on beyond that, and is no wait of this one.
    """
    order = np.argsort(trace.start_ns[marked], kind="stable")
    starts, ends = trace.start_ns[marked][order], trace.end_ns[marked][order]
    works = (trace.activity == OPERATOR) & ~trace.called(starts_of_collectives(trace.names))
    operators = np.append(np.sort(trace.start_ns[works]), np.iinfo(np.int64).max)
    begun = np.minimum(operators[np.searchsorted(operators, starts)], ends)
    receives = (trace.activity == ANNOTATION) & trace.called(receives_on_host(trace.names))
    asked, come = trace.start_ns[receives], trace.end_ns[receives]
    within = np.searchsorted(starts, come, side="left") - 1
    waited = (within >= 0) & (come <= begun[within])
    waits = Intervals.union(
        np.maximum(asked[waited], starts[within[waited]]),
        come[waited],
    )
    return Intervals.union(starts, ends) - waits
