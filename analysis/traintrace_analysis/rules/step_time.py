"""What the time inside a step goes to, once its batches are there."""

from traintrace.accounts import GROUPS
from traintrace_analysis.context import (
    Context,
    Weight,
    grade,
    is_small,
    scaled_cost,
    step_cost,
    weigh,
    weigh_cause,
)
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.actions import residual_action, transfer_action
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def h2d_bound(context: Context) -> list[Finding]:
    """Find steps that spend their time moving batches to the device."""
    window = context.window
    moved = window.steady("h2d")
    weight = None if moved is None else weigh_cause(window, moved, "h2d")
    if moved is None or weight is None:
        return []
    confidence = weight.confidence * context.sync_trust
    cost_s, basis = step_cost(context, ("h2d",), weight.cause_ms)
    if window.clock == "device":
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
            gain=replay(window, moved, clock=window.clock, upper_bound=context.blind),
            headline=f"Moving batches to the device takes {percent(weight.share)} of step time.",
            why=(
                f"Transfers take {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}."
                f"{weight.spread_text()}{_sync_caution(context)}"
            ),
            action=transfer_action(context.rank.setup),
        )
    ]


def residual_heavy(context: Context) -> list[Finding]:
    """Find steps with much time outside input, transfers, forward, backward and optimizer."""
    window = context.window
    rest = window.steady("residual")
    weight = None if rest is None else weigh_cause(window, rest, "residual")
    if rest is None or weight is None:
        return []
    confidence = weight.confidence * context.sync_trust
    cost_s, basis = step_cost(context, GROUPS["residual"], weight.cause_ms)
    if window.clock == "device":
        cost_s, basis = scaled_cost(context, weight.cause_ms), "window"
    severity = grade(weight, "residual", confidence, cost_s)
    if severity == "info" and confidence >= limit("confidence_to_name"):
        severity = "warning"  # what a framework takes of a short step is its cost all the same
    if severity is None:
        return []
    parts = _parts(context)
    largest = max(parts, key=lambda name: parts[name], default="other")
    return [
        Finding(
            id="residual-heavy",
            kind="RESIDUAL_HEAVY",
            family="step_time",
            severity=severity,
            confidence=confidence,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                "warmup_s": context.warmup_s(*GROUPS["residual"]),
                "largest_part": largest,
                **{f"{name}_ms": value for name, value in parts.items()},
                "largest_region": _largest_region(context),
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(window, rest, clock="host", upper_bound=True),  # some of it always stays
            headline=(
                f"{percent(weight.share)} of step time is neither data nor compute; "
                f"the largest part is {largest}."
            ),
            why=(
                f"{milliseconds(weight.cause_ms)} of {milliseconds(weight.step_ms)}"
                f"{weight.range_text()}; {largest} takes {milliseconds(parts.get(largest, 0.0))} on the "
                f"host clock.{weight.spread_text()}{_sync_caution(context)}"
                f"{_floor_note(weight, cost_s)}"
            ),
            action=residual_action(largest, _largest_region(context)),
        )
    ]


def compute_bound(context: Context) -> list[Finding]:
    """Note that the model itself takes most of the step: what a healthy run looks like."""
    window = context.window
    compute = window.steady("compute")
    weight = None if compute is None else weigh(window, compute, "compute_share_dominates")
    if weight is None or weight.share < limit("compute_share_dominates"):
        return []
    means = {name: context.metrics[name].mean_ms for name in GROUPS["compute"]}
    largest = max(means, key=lambda name: means[name] or 0.0)
    return [
        Finding(
            id="compute-bound",
            kind="COMPUTE_BOUND",
            family="step_time",
            severity="info",
            confidence=weight.confidence * context.sync_trust,
            ranks=window.ranks,
            evidence={**weight.evidence(), **{f"{name}_ms": mean for name, mean in means.items()}},
            cost_s=0.0,
            cost_basis="run",
            gain=None,
            headline=f"Compute takes {percent(weight.share)} of step time.",
            why=(
                f"Forward, backward and optimizer take {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}; {largest} is the largest."
            ),
            action=(
                "To go faster, make the model's own work cheaper: lower precision, torch.compile, "
                "larger batches, or a faster device."
            ),
        )
    ]


def _sync_caution(context: Context) -> str:
    if not context.blind:
        return ""
    return " Only the host clock was available: this time may be waiting for the device's own work."


def _floor_note(weight: Weight, cost_s: float) -> str:
    if not is_small(weight, cost_s):
        return ""
    return " Steps this short are ruled by fixed costs of Python and the framework."


def _parts(context: Context) -> dict[str, float]:
    means = {name: context.metrics[name].host_mean_ms for name in GROUPS["residual"]}
    return {name: mean for name, mean in means.items() if mean is not None}


def _largest_region(context: Context) -> str | None:
    sums: dict[str, int] = {}
    for region in context.rank.regions:
        sums[region.name] = sums.get(region.name, 0) + region.ns
    return max(sums, key=lambda name: sums[name]) if sums else None
