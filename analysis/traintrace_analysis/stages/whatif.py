"""What a change would win: the recorded run played again with it, against the same without it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from traintrace.stagefacts import QueueRecord, StageWorker
from traintrace_analysis.findings import Gain
from traintrace_analysis.stages.flow import Flow
from traintrace_analysis.stages.model import (
    Change,
    Limiting,
    QueueLoad,
    Replayed,
    StageLoad,
    WhatIf,
)
from traintrace_analysis.stages.occupancy import levels
from traintrace_analysis.stages.simulation import Played, PlayedStage, moves, play
from traintrace_analysis.stages.steady import since
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent

FASTER_BY = 0.2
"""How much faster a stage is asked to be: it takes a fifth less time."""

_REPLAYED_SERVICES = 5_000


def unplayable(flow: Flow, stages: Sequence[StageLoad]) -> str:
    """Say why a pipeline cannot be played again; "" if it can."""
    if flow.circle:
        return f"not replayed: {flow.circle}"
    for queue in flow.queues:
        for stage, verb in ((queue.producers, "puts into"), (queue.consumers, "takes from")):
            if not any(name in flow.names for name in stage):
                return f"not replayed: no stage {verb} {queue.name}; mark the code that does with traintrace.stage"
    for one in stages:
        if one.name in flow.names and one.services < limit("stage_services_minimum"):
            return f"not replayed: {one.name} did {one.services} services"
        if one.name in flow.names and one.unmeasured:
            return f"not replayed: of {one.name}, {one.unmeasured}"
    return ""


def build(flow: Flow, warm_ns: int | None = None) -> tuple[Played, float]:
    """Give the recorded pipeline as it is played, and what was measured of it in services per second.

    What is played is the latest part of which everything is kept, from one moment on, with the queues as
    they were then; at the earliest from `warm_ns` on.
    """
    begin = _begin(flow, warm_ns)
    origin = min(one.start_ns for name in flow.names for one in flow.workers[name])
    stages = tuple(_stage(flow, name, begin, origin) for name in flow.names)
    held = tuple(_held(queue, begin) for queue in flow.queues)
    capacities = tuple(
        float("inf") if queue.capacity is None else float(queue.capacity) for queue in flow.queues
    )
    done = sorted(one.done_ns for worker in flow.workers[flow.last] for one in since(worker, begin))
    span_s = (done[-1] - done[0]) / 1e9 if len(done) > 1 else 0.0
    measured = (len(done) - 1) / span_s if span_s > 0.0 else 0.0
    return Played(stages, capacities, held, flow.names.index(flow.last)), measured


def check_replay(pipeline: Played, measured: float) -> tuple[Replayed | None, Floats, str]:
    """Play a pipeline as recorded.

    Returns:
        How well that fits, when each service of the last stage was done, and why no what-if can rest on
        it ("" if one can).
    """
    done = play(pipeline)
    if len(done) < limit("stage_services_minimum") or not measured > 0.0:
        return None, done, "not replayed: too few services of the last stage"
    found = Replayed(measured, _per_s(done), len(done))
    if abs(found.deviation) > limit("stage_replay_tolerance"):
        than = "faster" if found.deviation > 0.0 else "slower"
        return (
            found,
            done,
            (
                f"withheld: the replay runs {percent(abs(found.deviation))} {than} than what was measured, so that "
                "something beside service times and queues decides: a lock, the interpreter, cores, work outside the stages"
            ),
        )
    return found, done, ""


def ask(
    flow: Flow,
    pipeline: Played,
    done: Floats,
    limiting: Limiting | None,
    loads: tuple[Sequence[StageLoad], Sequence[QueueLoad]],
    contended: bool,
) -> tuple[WhatIf, ...]:
    """Give what each change worth asking about would win.

    Args:
        flow: The network.
        pipeline: The same as it is played.
        limiting: The stage that limits, if known.
        loads: Stages and queues.
        done: When the services of the last stage are done without a change.
        contended: True if workers compete for what no replay knows: gains are then upper bounds.
    """
    stages = {one.name: one for one in loads[0]}
    queues = {one.name: one for one in loads[1]}
    most = max((one.demand_ms or 0.0) for one in loads[0])

    def changes() -> Iterator[tuple[Change, str, float, Played]]:
        for number, name in enumerate(flow.names):
            stage = pipeline.stages[number]
            demand = stages[name].demand_ms or 0.0
            if demand < limit("stage_worth_asking") * most:
                continue
            if limiting is not None and name == limiting.stage and limiting.lead:
                excess = 1.0 - 1.0 / (1.0 + limiting.lead)
                yield "to_next", name, excess, pipeline.with_stage(number, _faster(stage, excess))
            yield "faster", name, FASTER_BY, pipeline.with_stage(number, _faster(stage, FASTER_BY))
            yield "worker", name, 1.0, pipeline.with_stage(number, one_more_worker(stage))
        for number, queue in enumerate(flow.queues):
            if queue.capacity is not None and (queues[queue.name].full_share or 0.0) > 0.0:
                larger = larger_buffer(queue.capacity, flow, queue)
                yield "buffer", queue.name, larger, pipeline.with_capacity(number, larger)

    answers = []
    for change, target, amount, changed in changes():
        speedup, gain = _compare(done, play(changed), contended)
        answers.append(WhatIf(change, target, amount, speedup, gain))
    return tuple(answers)


def larger_buffer(capacity: int, flow: Flow, queue: QueueRecord) -> float:
    """Give the capacity that is tried: four times as much, and two for each worker at either end."""
    ends = {*queue.producers, *queue.consumers}
    workers = sum(len(flow.workers.get(name, ())) for name in ends)
    return float(max(4 * capacity, 2 * workers))


def one_more_worker(stage: PlayedStage) -> PlayedStage:
    """Give a stage one more worker, who begins with the first one and works as fast as the others."""
    return replace(stage, starts_ns=(*stage.starts_ns, min(stage.starts_ns)))


def _faster(stage: PlayedStage, by: float) -> PlayedStage:
    return replace(stage, service_ns=stage.service_ns * (1.0 - by))


def _compare(now: Floats, then: Floats, contended: bool) -> tuple[float, Gain | None]:
    """Give throughput then over throughput now, item by item, with its interval."""
    count = min(len(now), len(then))
    ratio = estimate_ratio(np.diff(now[:count]), np.diff(then[:count]))
    if ratio is None:
        return 1.0, None
    speedup = ratio.value
    if not speedup > 1.0:
        return speedup, None
    bounds = ratio.interval()
    low, high = (None, None) if bounds is None else (max(1.0, bounds[0]), bounds[1])
    return speedup, Gain(speedup, 1.0 if contended else low, high, "host", "loop")


def _per_s(done: Floats) -> float:
    return float((len(done) - 1) / (done[-1] - done[0]) * 1e9)


def _begin(flow: Flow, warm_ns: int | None) -> int | None:
    """Give the moment from which on the latest services of all stages are kept; None if all of them are."""
    begins = [] if warm_ns is None else [warm_ns]
    for name in flow.names:
        for worker in flow.workers[name]:
            if len(worker.services) < worker.service_count and worker.services:
                begins.append(worker.services[0].done_ns)
    ends = sorted(one.done_ns for worker in flow.workers[flow.last] for one in worker.services)
    if len(ends) > _REPLAYED_SERVICES:
        begins.append(ends[-_REPLAYED_SERVICES])
    return max(begins, default=None)


def _stage(flow: Flow, name: str, begin: int | None, origin: int) -> PlayedStage:
    workers: Sequence[StageWorker] = flow.workers[name]
    kept = sorted(
        (one.done_ns - one.busy_ns, worker.worker, one.busy_ns)
        for worker in workers
        for one in since(worker, begin)
    )
    starts = [0.0 if begin is not None else float(one.start_ns - origin) for one in workers]
    takes = [(n, flow.gets(queue, name)) for n, queue in enumerate(flow.queues)]
    puts = [(n, flow.puts(queue, name)) for n, queue in enumerate(flow.queues)]
    return PlayedStage(
        service_ns=np.asarray([busy for _, _, busy in kept], dtype=np.float64),
        takes=moves([pair for pair in takes if pair[1] > 0.0]),
        puts=moves([pair for pair in puts if pair[1] > 0.0]),
        starts_ns=starts,
    )


def _held(queue: QueueRecord, begin: int | None) -> int:
    if begin is None:
        return 0
    found = levels(queue)
    held = 0 if found is None else max(0, found.at(begin))
    return held if queue.capacity is None else min(held, queue.capacity)
