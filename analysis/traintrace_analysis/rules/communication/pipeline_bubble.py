"""Pipelines of stages whose ranks are idle for longer than their schedule costs anyway."""

from typing import Final

from traintrace_analysis.communication import pipeline_of
from traintrace_analysis.context import Context, scaled_cost
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.communication.exposure import ALONE
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.traces.bubble import Bubble, Shape
from traintrace_analysis.traces.lens import Pipeline
from traintrace_analysis.wording import count, milliseconds, percent


def pipeline_bubble(context: Context) -> list[Finding]:
    """Find a bubble beyond the least that the pipeline's schedule can have."""
    pipeline = pipeline_of(context)
    if pipeline is None or pipeline.bubble.excess < limit("pipeline_excess_share"):
        return []
    bubble = pipeline.bubble
    if bubble.shape is None or bubble.minimum is None:
        return []
    lost_ms = bubble.excess * bubble.span_ms
    cost_s = scaled_cost(context, lost_ms)
    small = lost_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor")
    return [
        Finding(
            id="pipeline-bubble",
            kind="PIPELINE_BUBBLE",
            family="communication",
            severity="info" if small else "warning",
            confidence=limit("trace_confidence"),
            ranks=tuple(bubble.busy_ms),
            evidence={
                "bubble_share": bubble.achieved,
                "minimum_share": bubble.minimum,
                "uneven_share": bubble.uneven,
                "pipeline_ms": bubble.span_ms,
                "ranks": bubble.shape.ranks,
                "micro_batches": bubble.shape.micro_batches,
                "stages_per_rank": bubble.shape.stages_per_rank,
                "source": pipeline.source,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=without(context.rank.totals, cost_s, basis="window", upper_bound=True),
            headline=(
                f"The pipeline's ranks are idle for {percent(bubble.achieved)} of its time; its schedule needs "
                f"{percent(bubble.minimum)}."
            ),
            why=_why(bubble, bubble.shape),
            action=_action(bubble, bubble.shape),
        )
    ]


def _why(bubble: Bubble, shape: Shape) -> str:
    schedule = "interleaved stages" if shape.stages_per_rank > 1 else "GPipe or 1F1B"
    slowest = max(bubble.busy_ms, key=lambda rank: bubble.busy_ms[rank])
    uneven = ""
    if bubble.uneven > 0.0:
        uneven = (
            f" Stages that take longer than others explain {percent(bubble.uneven)}; rank {slowest} works "
            f"longest, {milliseconds(bubble.busy_ms[slowest])} of {milliseconds(bubble.span_ms)}."
        )
    return (
        f"With {count(shape.ranks, 'rank')}, {count(shape.micro_batches, 'micro-batch')} and {schedule} "
        f"{percent(bubble.minimum or 0.0)} are idle whatever one does.{uneven}"
    ).replace("micro-batchs", "micro-batches")


def _action(bubble: Bubble, shape: Shape) -> str:
    if bubble.uneven >= bubble.excess / 2:
        return "Move layers from the rank that works longest to the others, until stages take equally long."
    return (
        f"Look for waits between the passes (sends that block, input on one stage); more than "
        f"{shape.micro_batches} micro-batches make the least bubble smaller, too."
    )


def _missing(context: Context) -> str:
    pipeline: Pipeline | None = pipeline_of(context)
    if pipeline is None and len(context.window.expected_ranks) < 2:
        return f"pipeline bubble ({ALONE})"
    if pipeline is None:
        return "pipeline bubble (no pipeline was marked)"
    if pipeline.bubble.minimum is None:
        return f"pipeline bubble ({pipeline.bubble.unknown})"
    return ""


RULE: Final = Rule(
    topic="the bubble of a pipeline",
    kinds=(
        Kind(
            name="PIPELINE_BUBBLE",
            means="The ranks of a pipeline of stages are idle for longer than its schedule makes them.",
            fires=(
                "Idle time is 5 % of the ranks' time or more beyond (p - 1) / (v m + p - 1), the least for p ranks "
                "with v stages each and m micro-batches (v = 1 for GPipe and 1F1B)."
            ),
            never="The part of the bubble that the schedule costs anyway; anything where p, m or v is not known.",
            action="Balance the stages; look for waits between passes.",
            limits=("pipeline_excess_share", "step_loss_floor", "run_loss_floor"),
        ),
    ),
    examine=pipeline_bubble,
    missing=_missing,
)
