"""The lens on communication: what ranks wait for, what traces say, and the bubble of a pipeline."""

from typing import Final

import numpy as np

from traintrace.accounts import GROUPS
from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_MS, Context
from traintrace_analysis.metrics import rank_means
from traintrace_analysis.traces.bubble import Bubble, bubble_of, region_stage, shape_of
from traintrace_analysis.traces.lens import Communication, Pipeline
from traintrace_analysis.traces.summary import TraceAnalysis

# What a rank does besides its stage's work and waiting for other stages: no part of the pipeline.
_OUTSIDE: Final = ("input_wait", "h2d", "gradient_sync", "clip", "optimizer", "callbacks")


def summarise_communication(
    context: Context | None, traces: TraceAnalysis | None
) -> Communication | None:
    """Give the lens; None where one rank trains alone and no trace was given."""
    waiting: dict[int, float] = {}
    shared = None
    if context is not None and len(context.window.ranks) > 1 and context.window.steady_steps:
        window = context.window
        parts = [part for name in GROUPS["waiting"] if (part := window.steady(name)) is not None]
        if parts and not window.accelerator:
            known = np.sum([np.nan_to_num(part) for part in parts], axis=0)
            means = rank_means(known, len(window.ranks)) / NS_PER_MS
            waiting = dict(zip(window.ranks, map(float, means), strict=True))
            shared = float(known.min(axis=0).mean()) / NS_PER_MS
    pipeline = None if context is None else pipeline_of(context)
    if pipeline is None and traces is not None and traces.bubble is not None:
        pipeline = Pipeline("trace", traces.bubble)
    if not waiting and traces is None and pipeline is None:
        return None
    return Communication(waiting, shared, traces, pipeline)


def pipeline_of(context: Context) -> Pipeline | None:
    """Give the pipeline of a run: of its traces, else of its regions; None where none is marked."""
    traffic = context.traffic
    if traffic is not None and traffic.bubble is not None:
        return Pipeline("trace", traffic.bubble)
    bubble = _of_regions(context)
    return None if bubble is None else Pipeline("regions", bubble)


def _of_regions(context: Context) -> Bubble | None:
    """Give the bubble from regions called `pipeline.stage<N>.forward` and `.backward`.

    A rank's regions cannot overlap: its training thread is in one of them at a time.
    """
    window = context.window
    if not window.steady_steps:
        return None
    steady = frozenset(window.steps[window.warmup_steps :].tolist())
    busy: dict[int, float] = {}
    stages: dict[int, frozenset[int]] = {}
    batches: set[int] = set()
    for rank in window.facts:
        held, ns, calls = _stage_work(rank, steady)
        if held:
            stages[rank.rank], busy[rank.rank] = held, ns / len(steady)
            batches.add(round(calls / len(held) / len(steady)))
    if not stages:
        return None
    shape, unknown = shape_of(stages, batches.pop() if len(batches) == 1 else None)
    return bubble_of(busy, _pipeline_ns(context, frozenset(busy)), shape, unknown)


def _stage_work(rank: RankFacts, steps: frozenset[int]) -> tuple[frozenset[int], int, int]:
    """Give the stages of a rank, its work in them [ns] and its forward passes, over the steady steps."""
    held: set[int] = set()
    ns = calls = 0
    for region in rank.regions:
        stage = region_stage(region.name) if region.step in steps else None
        if stage is not None:
            held.add(stage[0])
            ns += region.ns
            calls += region.calls if stage[1] else 0
    return frozenset(held), ns, calls


def _pipeline_ns(context: Context, ranks: frozenset[int]) -> float:
    """Give the mean time that the pipeline takes in a step: the step without what is no part of it."""
    window = context.window
    rows = [row for row, rank in enumerate(window.ranks) if rank in ranks]
    span = window.host["step_time"][rows, window.warmup_steps :].copy()
    for name in _OUTSIDE:
        part = window.host.get(name)
        if part is not None:
            span -= np.nan_to_num(part[rows, window.warmup_steps :])
    return float(span.max(axis=0).mean())
