"""Steps that spend their time moving batches to the device."""

from typing import Final

from traintrace_analysis.context import Context, grade, scaled_cost, step_cost, weigh_cause
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.actions import transfer_action
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs, sync_caution
from traintrace_analysis.rules.step_time.apart import NAMED_APART, apart_from_others
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def h2d_bound(context: Context) -> list[Finding]:
    """Find steps that spend their time moving batches to the device."""
    window = context.window
    moved = window.steady("h2d")
    weight = None if moved is None else weigh_cause(window, moved, "h2d")
    if moved is None or weight is None or weight.share < limit("h2d_share_warning"):
        return []
    steady = apart_from_others(context, moved, "h2d")
    apart = steady is not moved
    weight = weigh_cause(window, steady, "h2d")
    if weight is None:
        return []
    confidence = weight.confidence * context.sync_trust
    cost_s, basis = step_cost(context, ("h2d",), weight.cause_ms)
    if window.clock == "device" or apart:
        cost_s, basis = scaled_cost(context, weight.cause_ms), "window"
    severity = grade(weight, "h2d", confidence, cost_s)
    if severity is None:
        return []
    return [
        Finding(
            id="h2d-bound",
            kind="H2D_BOUND",
            family="step_time",
            severity=severity,
            confidence=confidence,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                "h2d_ms": weight.cause_ms,
                "warmup_s": context.warmup_s("h2d"),
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(window, steady, clock=window.clock, upper_bound=context.blind),
            headline=f"Moving batches to the device takes {percent(weight.share)} of step time.",
            why=(
                f"Transfers take {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}."
                f"{weight.spread_text()}{sync_caution(context)}{NAMED_APART if apart else ''}"
            ),
            action=transfer_action(context.rank.setup),
        )
    ]


RULE: Final = Rule(
    topic="transfers to the device",
    kinds=(
        Kind(
            name="H2D_BOUND",
            means="Steps spend much of their time copying batches from the host to the device.",
            fires="Transfers take a tenth of step time or more.",
            never=(
                "That the link is slow: the copies may be many, large, or from memory that is not "
                "pinned. On the host clock of an accelerator the time may be a moved wait."
            ),
            action="Pin host memory, copy with non_blocking=True, send smaller types.",
            limits=(
                "h2d_share_warning",
                "h2d_share_critical",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_sync_trust",
            ),
        ),
    ),
    examine=h2d_bound,
    missing=needs("h2d"),
)
