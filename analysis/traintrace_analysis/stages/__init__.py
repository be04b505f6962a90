"""Pipelines of stages and queues: what each one does, which one limits all of them, and what a change would win.

Everything is a pure function of what the workers recorded (`traintrace.stagefacts.Pipeline`). The door is `analyse_stages`.
"""

from collections.abc import Sequence

from traintrace.readings import ProcessReading, SystemReading
from traintrace.stagefacts import Pipeline
from traintrace_analysis.stages.contention import find_contention
from traintrace_analysis.stages.flow import trace_flow
from traintrace_analysis.stages.limiting import find_limiting
from traintrace_analysis.stages.loads import measure_stages
from traintrace_analysis.stages.model import (
    Contention,
    Limiting,
    QueueLoad,
    Replayed,
    StageAnalysis,
    StageLoad,
    WhatIf,
)
from traintrace_analysis.stages.occupancy import measure_queue
from traintrace_analysis.stages.steady import filling_s, warm_until
from traintrace_analysis.stages.whatif import ask, build, check_replay, unplayable

__all__ = [
    "Contention",
    "Limiting",
    "QueueLoad",
    "Replayed",
    "StageAnalysis",
    "StageLoad",
    "WhatIf",
    "analyse_stages",
]


def analyse_stages(
    pipeline: Pipeline | None,
    process: Sequence[ProcessReading] = (),
    system: Sequence[SystemReading] = (),
    rank: int = 0,
) -> StageAnalysis | None:
    """Analyse what one process and its children recorded of a pipeline.

    Args:
        pipeline: The record; None if there is none.
        rank: Of that process.
        process: Readings of it, to tell whether its workers compete for cores.
        system: The same of its node.

    Returns:
        None if no stage was marked or none worked.
    """
    flow = None if pipeline is None else trace_flow(pipeline)
    if flow is None or pipeline is None:
        return None
    warm = warm_until(flow)
    stages = measure_stages(flow, warm)
    here = {queue.name for queue in flow.queues}
    others = [queue for queue in pipeline.queues if queue.name not in here]
    queues = tuple(measure_queue(queue) for queue in (*flow.queues, *others))
    begin = min(one.start_ns for one in pipeline.workers)
    end = max(one.end_ns for one in pipeline.workers)
    contention = find_contention(stages, process, system, (begin, end))
    found = find_limiting(flow, stages, queues)
    limiting = found if isinstance(found, Limiting) else None
    withheld, replayed = unplayable(flow, stages), None
    what_ifs: tuple[WhatIf, ...] = ()
    if not withheld:
        played, measured = build(flow, warm)
        replayed, done, withheld = check_replay(played, measured)
        if not withheld:
            contended = isinstance(contention, Contention)
            what_ifs = ask(flow, played, done, limiting, (stages, queues), contended)
    return StageAnalysis(
        rank=rank,
        stages=stages,
        queues=queues,
        last_stage=flow.last,
        span_s=(end - begin) / 1e9,
        filling_s=filling_s(flow),
        warmup_s=0.0 if warm is None else (warm - begin) / 1e9,
        limiting=limiting,
        not_separable=found if isinstance(found, str) else "",
        replayed=replayed,
        what_ifs=what_ifs,
        withheld=withheld,
        contention=contention if isinstance(contention, Contention) else None,
        core_doubt=contention if isinstance(contention, str) else "",
    )
