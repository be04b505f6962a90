"""The stage that all others wait for."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.stages.changes import caveat, doubts, speeding_up, trust
from traintrace_analysis.rules.stages.losses import (
    grade,
    losses_of,
    no_stages,
    share_lost,
    starved_share,
)
from traintrace_analysis.stages import Limiting, StageAnalysis, StageLoad
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, listed, milliseconds, percent

_KIND: Final = "STAGE_BOTTLENECK"


def stage_bottleneck(context: Context) -> list[Finding]:
    """Find the stage that needs most time per item; that it is the last one is good news."""
    stages = context.stages
    if stages is None or stages.limiting is None:
        return []
    limiting = stages.limiting
    load = stages.stage(limiting.stage)
    if limiting.is_last and starved_share(stages) >= limit("stage_starved_warning"):
        return []  # STARVED tells what it waits for
    if limiting.is_last:
        return [_good_news(stages, limiting, load)]
    losses = losses_of(stages)
    share = losses.bottleneck_s / stages.span_s if stages.span_s > 0.0 else 0.0
    severity = grade(
        share,
        share_lost(1.0 + limit("stage_gain_warning")),
        share_lost(1.0 + limit("stage_gain_critical")),
        losses.bottleneck_s,
    )
    if severity is None:
        return []
    to_next = stages.what_if("to_next", limiting.stage)
    next_ms = stages.stage(limiting.runner_up or limiting.stage).demand_ms or 0.0
    confidence = limiting.confidence
    if limiting.corroborated is False:
        confidence = min(confidence, limit("stage_confidence"))
    return [
        Finding(
            id="stage-bottleneck",
            kind=_KIND,
            family="stages",
            severity=severity if losses.named else "info",
            confidence=confidence,
            ranks=(stages.rank,),
            evidence=_evidence(stages, limiting, load),
            cost_s=losses.bottleneck_s,
            cost_basis="run" if _covers_all(stages) else "window",
            gain=None if to_next is None else to_next.gain,
            headline=(
                f"Stage {limiting.stage}{_whose(context, stages)} holds up the pipeline: {percent(share)} of the time is "
                "lost to it."
            ),
            why=(
                f"{_demand(load, stages)}, and {milliseconds(next_ms)} in the next stage, {limiting.runner_up} "
                f"({percent(limiting.confidence)} sure).{_waits(limiting)}{_also(limiting)}"
                f"{trust(stages)}{caveat(stages.contention)}{doubts(stages)}"
            ),
            action=speeding_up(stages, limiting.stage),
        )
    ]


def _good_news(stages: StageAnalysis, limiting: Limiting, load: StageLoad) -> Finding:
    """Say that everything else keeps up with the last stage."""
    return Finding(
        id="stage-bottleneck",
        kind=_KIND,
        family="stages",
        severity="info",
        confidence=limiting.confidence,
        ranks=(stages.rank,),
        evidence=_evidence(stages, limiting, load),
        cost_s=0.0,
        cost_basis="run",
        gain=None,
        headline=f"The pipeline keeps up with its last stage, {load.name}, as it should.",
        why=(
            f"{load.name} is busy {percent(load.busy_share)} of the time. {_demand(load, stages)}: more than in "
            f"any stage before it ({percent(limiting.confidence)} sure).{_also(limiting)}{doubts(stages)}"
        ),
        action=(
            f"Feeding {load.name} faster wins nothing: only its own work can be made cheaper. What its steps consist "
            "of is in the other findings."
        ),
    )


def _whose(context: Context, stages: StageAnalysis) -> str:
    return f" of rank {stages.rank}" if len(context.window.ranks) > 1 else ""


def _covers_all(stages: StageAnalysis) -> bool:
    """Tell whether the replay holds all that the last stage did."""
    last = None if stages.last_stage is None else stages.stage(stages.last_stage)
    found = stages.replayed
    return found is not None and last is not None and found.services == last.services


def _demand(load: StageLoad, stages: StageAnalysis) -> str:
    each = "item" if load.name == stages.last_stage else f"item of {stages.last_stage}"
    return (
        f"One {each} needs {milliseconds(load.demand_ms or 0.0)} in {load.name} "
        f"({count(load.workers, 'worker')}, each {milliseconds(load.service_ms or 0.0)} at a time)"
    )


def _waits(limiting: Limiting) -> str:
    if not limiting.pattern:
        return ""
    if limiting.corroborated:
        return f" The waits agree: {limiting.pattern}."
    return f" The waits do not all agree: {limiting.pattern}."


def _also(limiting: Limiting) -> str:
    if not limiting.balanced:
        return ""
    near = percent(limit("stage_near_balance"))
    return f" {listed(limiting.balanced)} are balanced within {near}: speeding up one alone wins little."


def _evidence(
    stages: StageAnalysis, limiting: Limiting, load: StageLoad
) -> dict[str, float | int | str | None]:
    error = load.demand_error_ms
    return {
        "stage": limiting.stage,
        "next_stage": limiting.runner_up,
        "demand_ms": load.demand_ms,
        "demand_error_ms": error,
        "lead_ratio": limiting.lead,
        "busy_share": load.busy_share,
        "starved_share": load.starved_share,
        "blocked_share": load.blocked_share,
        "workers_count": load.workers,
        "balanced_with": ",".join(name for name in limiting.balanced if name != limiting.stage)
        or None,
        "waits_agree": None
        if limiting.corroborated is None
        else str(limiting.corroborated).lower(),
        "replay_deviation_ratio": None if stages.replayed is None else stages.replayed.deviation,
        "contention": None if stages.contention is None else stages.contention.kind,
    }


RULE: Final = Rule(
    topic="the stage that limits a pipeline",
    kinds=(
        Kind(
            name=_KIND,
            means="One stage of a pipeline needs more time per item than any other, so all others wait for it.",
            fires=(
                "Its time of work per item and worker is the largest with a chance of 90 %, it is not the last stage, and "
                "bringing it down to the next one's wins 5 % of throughput or more by replay. If it is the last stage, that is "
                "told as good news."
            ),
            never=(
                "That its code is slow: it may have too few workers, or its workers may share a core or the "
                "interpreter. In a pipeline that runs in a circle no stage is named."
            ),
            action="Give the stage more workers, or make its work cheaper, as far as the next stage allows.",
            limits=(
                "stage_confidence",
                "stage_gain_warning",
                "stage_gain_critical",
                "stage_near_balance",
                "stage_services_minimum",
                "stage_replay_tolerance",
                "stage_wait_share",
                "between_loss_floor",
            ),
        ),
    ),
    examine=stage_bottleneck,
    missing=no_stages,
    needs_steps=False,
)
