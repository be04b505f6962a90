"""Stages that stand still at a queue, where no bottleneck and no small queue explains it."""

from dataclasses import replace
from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.stages.changes import caveat, speeding_up
from traintrace_analysis.rules.stages.losses import (
    Losses,
    grade,
    losses_of,
    no_stages,
    starved_share,
)
from traintrace_analysis.stages import StageAnalysis, StageLoad
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, percent, seconds


def starved(context: Context) -> list[Finding]:
    """Find a last stage that waits for items."""
    stages = context.stages
    if stages is None or stages.last_stage is None:
        return []
    load, losses = stages.stage(stages.last_stage), losses_of(stages)
    if starved_share(stages) < limit("stage_starved_warning"):
        return []
    queues = listed(sorted(load.starved_by, key=lambda name: -load.starved_by[name])[:2])
    finding = Finding(
        id="starved",
        kind="STARVED",
        family="stages",
        severity="info",
        confidence=0.95,
        ranks=(stages.rank,),
        evidence=_evidence(load),
        cost_s=0.0,
        cost_basis="run",
        gain=None,
        headline=f"The last stage, {load.name}, waits for items {percent(starved_share(stages))} of the time.",
        why=f"It is busy {percent(load.busy_share)}; its waits are at {queues}.{_cause(stages, losses)}",
        action=_action(stages, load),
    )
    return [_with_cost(stages, finding, losses.starved_s, "stage_starved_warning")]


def blocked(context: Context) -> list[Finding]:
    """Find a limiting stage that cannot hand over what it has done."""
    stages = context.stages
    if stages is None or stages.limiting is None:
        return []
    load, losses = stages.stage(stages.limiting.stage), losses_of(stages)
    if load.blocked_share < limit("stage_blocked_warning"):
        return []
    queues = listed(sorted(load.blocked_by, key=lambda name: -load.blocked_by[name])[:2])
    finding = Finding(
        id="blocked",
        kind="BLOCKED",
        family="stages",
        severity="info",
        confidence=0.95,
        ranks=(stages.rank,),
        evidence=_evidence(load),
        cost_s=0.0,
        cost_basis="run",
        gain=None,
        headline=f"{load.name}, the stage that limits, cannot hand over {percent(load.blocked_share)} of the time.",
        why=(
            f"It needs most time per item, and yet it stands in front of {queues}, which is full: the stages after it "
            f"take items in bursts.{_small_queue(losses)}{caveat(stages.contention)}"
        ),
        action=f"Let {queues} hold more items, or make what comes after it more even.",
    )
    return [_with_cost(stages, finding, losses.blocked_s, "stage_blocked_warning")]


def _with_cost(stages: StageAnalysis, finding: Finding, cost_s: float, warning: str) -> Finding:
    """Name the seconds that no other finding names, if they reach the limit."""
    share = cost_s / stages.span_s if stages.span_s > 0.0 else 0.0
    severity = grade(share, limit(warning), 2.0 * limit(warning), cost_s)
    if severity is None:
        return finding
    return replace(finding, severity=severity, cost_s=cost_s)


def _cause(stages: StageAnalysis, losses: Losses) -> str:
    limiting = stages.limiting
    if limiting is None:
        return f" Which stage it waits for cannot be told: {stages.not_separable}."
    if losses.named:
        return f" It waits for {limiting.stage}, and these seconds are counted there."
    if limiting.balanced:
        near = percent(limit("stage_near_balance"))
        return f" {listed(limiting.balanced)} limit the pipeline together, balanced within {near}.{_small_queue(losses)}"
    if limiting.is_last and _is_shared(stages):
        return (
            " No stage before it needs more time per item, and service times and queues do not explain the waits: "
            "something else decides, such as a lock, the interpreter, or too few cores."
        )
    if limiting.is_last:
        return (
            f" No stage before it needs more time per item, so the waits come from unevenness, or from the start of "
            f"the run.{_small_queue(losses)}"
        )
    return f" {limiting.stage} needs most time per item, with {percent(limiting.confidence)} certainty.{_small_queue(losses)}"


def _is_shared(stages: StageAnalysis) -> bool:
    """Tell a pipeline that runs slower than its services and queues would let it."""
    return bool(stages.withheld) and stages.replayed is not None and stages.replayed.deviation > 0.0


def _small_queue(losses: Losses) -> str:
    if losses.queue is None:
        return ""
    return f" Of that, {seconds(losses.queue_s)} are counted at {losses.queue.target}, which is too small."


def _action(stages: StageAnalysis, load: StageLoad) -> str:
    limiting = stages.limiting
    if limiting is None:
        return f"Mark every stage that feeds {load.name} with traintrace.stage, so that the slow one can be named."
    if limiting.is_last and _is_shared(stages):
        return (
            "Look at what the stages share beside queues: a lock, cores, or the interpreter, at which threads that run "
            "Python code take turns and processes do not."
        )
    if limiting.is_last:
        return f"Let the queues before {load.name} hold more items, or make the stages before it more even."
    if limiting.balanced:
        return f"Speed up {listed(limiting.balanced)} together: one alone wins little."
    return speeding_up(stages, limiting.stage)


def _evidence(load: StageLoad) -> dict[str, float | int | str | None]:
    return {
        "stage": load.name,
        "busy_share": load.busy_share,
        "starved_share": load.starved_share,
        "blocked_share": load.blocked_share,
        "items_per_s": load.items_per_s,
    }


STARVED: Final = Rule(
    topic="stages that wait for items",
    kinds=(
        Kind(
            name="STARVED",
            means="The last stage of a pipeline, which all others work for, waits for items.",
            fires=(
                "It waits a tenth of its time or more. Seconds that a bottleneck or a queue that is too small explains are "
                "counted there, and the wait is then only told."
            ),
            never="Which stage is to blame: that is what STAGE_BOTTLENECK says.",
            action="Speed up the stage that limits, or all of those that are balanced.",
            limits=("stage_starved_warning", "between_loss_floor"),
        ),
    ),
    examine=starved,
    missing=no_stages,
    needs_steps=False,
)
BLOCKED: Final = Rule(
    topic="stages that wait for room",
    kinds=(
        Kind(
            name="BLOCKED",
            means="The stage that limits a pipeline cannot hand over what it has done, so that it loses time it needs.",
            fires=(
                "It waits for room in a queue a tenth of its time or more. Seconds that a larger queue wins are counted at "
                "QUEUE_TOO_SMALL."
            ),
            never="Anything about stages before the limiting one: that they are blocked is how a pipeline works.",
            action="Let the queue hold more items, or make the stages after it more even.",
            limits=("stage_blocked_warning", "between_loss_floor"),
        ),
    ),
    examine=blocked,
    missing=no_stages,
    needs_steps=False,
)
