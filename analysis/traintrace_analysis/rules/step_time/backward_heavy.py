"""Steps whose backward pass takes far longer than the forward pass explains."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context, scaled_cost, weigh
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import backward_may_wait, needs, shares_a_model
from traintrace_analysis.rules.step_time.apart import NAMED_APART, apart_from_others
from traintrace_analysis.rules.step_time.drift import grows_in
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, number, percent


def backward_heavy(context: Context) -> list[Finding]:
    """Find backward passes that take far more than two to three times the forward pass.

    Part of the forward work may run outside the traced model (a loss, a second model), so all that the
    step does besides counts as forward too: the ratio is a lower bound.
    """
    window = context.window
    backward = window.steady("backward")
    weight = None if backward is None else weigh(window, backward, "backward_share_minimum")
    if backward is None or weight is None or weight.share < limit("backward_share_minimum"):
        return []
    whole, backward = backward, apart_from_others(context, backward, "backward")
    weight = weigh(window, backward, "backward_share_minimum")
    if weight is None or weight.share < limit("backward_share_minimum"):
        return []
    forward = _forward(context)
    own, base = backward[weight.row], forward[weight.row]
    known = ~np.isnan(own) & ~np.isnan(base)
    ratio = estimate_ratio(own[known], base[known])
    if ratio is None or ratio.value < limit("backward_ratio_warning"):
        return []
    confidence = ratio.chance_at_least(limit("backward_ratio_warning")) * (
        0.75 + 0.25 * ratio.knowledge
    )
    if confidence < limit("confidence_to_name"):
        return []
    base_ms = float(base[known].mean()) / 1e6
    lost_ms = weight.cause_ms - limit("backward_ratio_usual") * base_ms
    cost_s = scaled_cost(context, lost_ms)
    if lost_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor"):
        return []
    if grows_in(context) == "backward":
        return []
    chance = ratio.chance_at_least(limit("backward_ratio_critical"))
    low, high = ratio.interval() or (None, None)
    excess = np.maximum(backward - limit("backward_ratio_usual") * forward, 0.0)
    return [
        Finding(
            id="backward-heavy",
            kind="BACKWARD_HEAVY",
            family="step_time",
            severity="critical" if chance >= limit("confidence_of_critical") else "warning",
            confidence=confidence,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                "forward_ms": base_ms,
                "backward_to_forward_ratio": ratio.value,
                "ratio_low": low,
                "ratio_high": high,
                "beyond_usual_ms": lost_ms,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=replay(window, excess, clock=window.clock, upper_bound=True),
            headline=f"Backward takes {number(ratio.value)} times as long as forward.",
            why=(
                f"The backward pass takes {milliseconds(weight.cause_ms)}, {percent(weight.share)} of the "
                f"step; forward and what runs beside it {milliseconds(base_ms)}. Two to three times is "
                f"ordinary, all blocks computed again included.{NAMED_APART if backward is not whole else ''}"
            ),
            action=(
                "Look at what runs inside backward: hooks, torch.autograd.set_detect_anomaly, checkpointed blocks "
                "inside checkpointed blocks, gradients of large embeddings (sparse=True), custom functions."
            ),
        )
    ]


def _forward(context: Context) -> Floats:
    """Give the forward time by rank and steady step, what else may be forward work included."""
    window = context.window
    forward = window.steady("forward")
    whole: Floats = (
        np.zeros((len(window.ranks), window.steady_steps)) if forward is None else forward.copy()
    )
    # On the device clock these are host times, in which the host waits for the device's own work.
    beside = ("other", "user", "batch_prep") if window.clock == "host" else ()
    for name in beside:
        part = window.steady(name)
        if part is not None:
            whole += np.nan_to_num(part)
    return whole


def _missing(context: Context) -> str:
    window = context.window
    if context.blind:
        return "backward (the host's time says when kernels were issued, not how long they took)"
    if backward_may_wait(context):
        why = (
            "the model is sharded"
            if shares_a_model(context)
            else window.reasons.get("gradient_sync", "its waiting was not marked")
        )
        return f"backward (it may include waiting for other ranks: {why})"
    return needs("forward", "backward")(context)


RULE: Final = Rule(
    topic="the backward pass",
    kinds=(
        Kind(
            name="BACKWARD_HEAVY",
            means="The backward pass takes far longer than the forward pass explains.",
            fires=(
                "Backward takes five times as long as forward, or more, and 30 % of step time or more. What "
                "the step does beside its phases counts as forward."
            ),
            never=(
                "Anything where backward may include waiting for other ranks, or where only the host of an "
                "accelerator was timed. That recomputing blocks is wrong: it trades time for memory."
            ),
            action="Look at hooks, anomaly detection, nested checkpointing and gradients of embeddings.",
            limits=(
                "backward_ratio_warning",
                "backward_ratio_critical",
                "backward_ratio_usual",
                "backward_share_minimum",
                "step_loss_floor",
                "run_loss_floor",
            ),
        ),
    ),
    examine=backward_heavy,
    missing=_missing,
)
