"""Steps in which updating the parameters takes much of the time."""

from typing import Final

from traintrace_analysis.context import Context, grade, scaled_cost, weigh_cause
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs, sync_caution
from traintrace_analysis.rules.step_time.apart import NAMED_APART, apart_from_others
from traintrace_analysis.rules.step_time.drift import grows_in
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def optimizer_heavy(context: Context) -> list[Finding]:
    """Find steps whose optimizer takes far more than a fused one would."""
    window = context.window
    update = window.steady("optimizer")
    weight = None if update is None else weigh_cause(window, update, "optimizer")
    if update is None or weight is None or weight.share < limit("optimizer_share_warning"):
        return []
    whole, update = update, apart_from_others(context, update, "optimizer")
    weight = weigh_cause(window, update, "optimizer")
    if weight is None:
        return []
    confidence = weight.confidence * context.sync_trust
    # What an ordinary update takes of the rest of the step stays; only the excess is lost.
    usual = limit("optimizer_share_usual") / (1.0 - limit("optimizer_share_usual"))
    rest_ms = weight.step_ms - weight.cause_ms
    lost_ms = max(0.0, weight.cause_ms - usual * rest_ms)
    cost_s = scaled_cost(context, lost_ms)
    severity = grade(weight, "optimizer", confidence, cost_s)
    if severity is None or grows_in(context) == "optimizer":
        return []
    setup = context.rank.setup
    lost = lost_ms / weight.cause_ms if weight.cause_ms > 0.0 else 0.0
    return [
        Finding(
            id="optimizer-heavy",
            kind="OPTIMIZER_HEAVY",
            family="step_time",
            severity=severity,
            confidence=confidence,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                "beyond_usual_ms": lost_ms,
                "parameters_count": setup.parameter_count,
                "accumulation_count": setup.accumulation,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=replay(window, update * lost, clock=window.clock, upper_bound=True),
            headline=f"The optimizer takes {percent(weight.share)} of step time.",
            why=(
                f"Updating the parameters takes {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}; beyond an ordinary "
                f"{percent(limit('optimizer_share_usual'))} that is {milliseconds(lost_ms)} a step."
                f"{weight.spread_text()}{sync_caution(context)}{NAMED_APART if update is not whole else ''}"
            ),
            action=_action(setup.accumulation, setup.batch_size),
        )
    ]


def _action(accumulation: int | None, batch_size: int | None) -> str:
    fused = (
        "Give the optimizer fused=True (or foreach=True), so that it updates many tensors in one call "
        "instead of one after the other."
    )
    size = f" of {batch_size:,}" if batch_size else ""
    if accumulation is not None and accumulation > 1:
        return f"{fused} Each update already serves {accumulation} micro-batches{size}."
    return (
        f"{fused} A larger batch than the present one{size}, or accumulation, makes updates rarer."
    )


RULE: Final = Rule(
    topic="the optimizer",
    kinds=(
        Kind(
            name="OPTIMIZER_HEAVY",
            means="Updating the parameters takes much of the step, as with many small tensors or small batches.",
            fires="The optimizer takes a fifth of step time or more.",
            never="That all of it can be won: its cost is what lies above the tenth that is ordinary.",
            action="Use a fused or foreach optimizer, larger batches, or accumulation.",
            limits=(
                "optimizer_share_warning",
                "optimizer_share_critical",
                "optimizer_share_usual",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_sync_trust",
            ),
        ),
    ),
    examine=optimizer_heavy,
    missing=needs("optimizer"),
)
