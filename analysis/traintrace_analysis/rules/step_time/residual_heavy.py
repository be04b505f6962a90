"""Steps with much time outside data and compute."""

from typing import Final

from traintrace.accounts import GROUPS
from traintrace_analysis.context import (
    Context,
    Weight,
    grade,
    is_small,
    scaled_cost,
    step_cost,
    weigh_cause,
)
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.actions import residual_action
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs, sync_caution
from traintrace_analysis.rules.step_time.apart import NAMED_APART, apart_from_others
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def residual_heavy(context: Context) -> list[Finding]:
    """Find steps with much time outside input, transfers, forward, backward and optimizer."""
    window = context.window
    rest = window.steady("residual")
    weight = None if rest is None else weigh_cause(window, rest, "residual")
    if rest is None or weight is None or weight.share < limit("residual_share_warning"):
        return []
    steady = apart_from_others(context, rest, *GROUPS["residual"])
    apart = steady is not rest
    weight = weigh_cause(window, steady, "residual")
    if weight is None:
        return []
    confidence = weight.confidence * context.sync_trust
    cost_s, basis = step_cost(context, GROUPS["residual"], weight.cause_ms)
    if window.clock == "device" or apart:
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
            gain=replay(window, steady, clock="host", upper_bound=True),  # some of it always stays
            headline=(
                f"{percent(weight.share)} of step time is neither data nor compute; "
                f"the largest part is {largest}."
            ),
            why=(
                f"{milliseconds(weight.cause_ms)} of {milliseconds(weight.step_ms)}"
                f"{weight.range_text()}; {largest} takes {milliseconds(parts.get(largest, 0.0))} on the "
                f"host clock.{weight.spread_text()}{sync_caution(context)}{NAMED_APART if apart else ''}"
                f"{_floor_note(weight, cost_s)}"
            ),
            action=residual_action(largest, _largest_region(context)),
        )
    ]


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


def _missing(context: Context) -> str:
    if context.window.clock == "device":
        return (
            "residual (host and device work overlap, so it is a difference and no time of its own)"
        )
    return needs("residual")(context)


RULE: Final = Rule(
    topic="time outside data and compute",
    kinds=(
        Kind(
            name="RESIDUAL_HEAVY",
            means=(
                "Much of a step is neither data nor forward, backward and optimizer: batch preparation, "
                "callbacks, clipping, logging of values, Python of the loop or of the framework."
            ),
            fires=(
                "What is left of step time takes a tenth of it or more. Only where every phase was "
                "measured, and only on the host clock."
            ),
            never="That communication is slow, or that all of it can be removed: the gain is an upper bound.",
            action="Find the largest part, mark suspects with `traintrace.region(name)`, do less per step.",
            limits=(
                "residual_share_warning",
                "residual_share_critical",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_sync_trust",
            ),
        ),
    ),
    examine=residual_heavy,
    missing=_missing,
)
