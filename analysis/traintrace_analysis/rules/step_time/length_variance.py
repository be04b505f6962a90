"""Step times that differ because the batches do, and what the padding between them costs."""

from typing import Final

import numpy as np

from traintrace_analysis.columns import Aligner
from traintrace_analysis.context import NS_PER_MS, Context, scaled_cost
from traintrace_analysis.convergence.explained import Explained
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent

_TOLD: Final = {"padded_tokens": "padded tokens", "tokens": "tokens", "samples": "samples"}


def length_variance(context: Context) -> list[Finding]:
    """Find steps that differ as their amounts of data do; what padding takes of them is a cost."""
    found = None if context.convergence is None else context.convergence.explained
    if found is None or found.low < limit("lengths_explained"):
        return []
    if found.spread < limit("lengths_spread"):
        return []
    wasted = _padding_ns(context, found)
    mean_ms = 0.0 if wasted is None else float(wasted[context.row].mean()) / NS_PER_MS
    step_ms = context.metrics["step_time"].mean_ms or 0.0
    share = mean_ms / step_ms if step_ms > 0.0 else 0.0
    severity: Severity = "info"
    cost_s = scaled_cost(context, mean_ms)
    matters = mean_ms >= limit("step_loss_floor") or cost_s >= limit("run_loss_floor")
    if share >= limit("padding_share_warning") and matters:
        severity = "warning"
    load = None if context.comparison is None else context.comparison.load
    waits = load is not None and load.share >= limit("straggler_share_warning")
    return [
        Finding(
            id="length-variance",
            kind="LENGTH_VARIANCE",
            family="step_time",
            severity=severity,
            confidence=0.9 if severity == "warning" else 0.95,
            ranks=context.window.ranks,
            evidence={
                "amount": found.amount,
                "explained_share": found.share,
                "explained_low_share": found.low,
                "explained_high_share": found.high,
                "amount_spread_share": found.spread,
                "us_per_unit": found.ns_per_unit / 1e3,
                "padding_share": found.padding_share,
                "padding_ms": None if wasted is None else mean_ms,
                "share": share if wasted is not None else None,
            },
            cost_s=cost_s if severity == "warning" else 0.0,
            cost_basis="window",
            gain=replay(context.window, wasted, upper_bound=True)
            if severity == "warning" and wasted is not None
            else None,
            headline=_headline(found, share, severity),
            why=_why(found, mean_ms, wasted is not None, waits),
            action=(
                "Batch by length: sort within a shuffled buffer, or `group_by_length=True` in the Hugging Face "
                "TrainingArguments (`train_sampling_strategy` in newer ones); then padding and the waits of ranks for "
                "the longest batch shrink together. Packing sequences needs no padding at all."
            ),
        )
    ]


def _padding_ns(context: Context, found: Explained) -> Floats | None:
    """Give what padding takes of each steady step by the slope of the step time; None if it is not known."""
    window, first = context.window, context.window.warmup_steps
    padded = Aligner(window.facts, window.steps).floats("padded_tokens")
    if found.amount != "padded_tokens" or found.padding_share is None or padded is None:
        return None
    wasted: Floats = np.maximum(padded - window.tokens, 0.0)[:, first:] * found.ns_per_unit
    # A straight line cannot say more than that the whole step is padding.
    return np.minimum(np.nan_to_num(wasted), 0.9 * window.host["step_time"][:, first:])


def _headline(found: Explained, share: float, severity: Severity) -> str:
    amount = _TOLD[found.amount]
    if severity == "warning":
        return f"Padding takes {percent(share)} of step time: batches hold sequences of differing length."
    return f"Step times differ because the {amount} do: these explain {percent(found.share)} of the variance."


def _why(found: Explained, mean_ms: float, known: bool, waits: bool) -> str:
    amount = _TOLD[found.amount]
    text = (
        f"Over {found.steps:,} steps the number of {amount} explains {percent(found.share)} of the variance of the step "
        f"time (95 % interval {percent(found.low)} to {percent(found.high)}); it spreads by {percent(found.spread)} "
        f"around its mean, and 1,000 more take {milliseconds(found.ns_per_unit / 1e3)}."
    )
    if known and found.padding_share is not None:
        text += (
            f" {percent(found.padding_share)} of the padded tokens are padding, at that price {milliseconds(mean_ms)} a "
            "step; batching by length removes most of it, not all."
        )
    if waits:
        text += " Ranks wait for the one with most: LOAD_IMBALANCE names those seconds, and they are not counted here."
    return text


def _missing(context: Context) -> str:
    found = None if context.convergence is None else context.convergence.explained
    if found is not None:
        return ""
    window = context.window
    if np.isnan(window.samples).all() and np.isnan(window.tokens).all():
        return "amounts of data per step (the sizes of the batches are not known)"
    return ""


RULE: Final = Rule(
    topic="amounts of data per step",
    kinds=(
        Kind(
            name="LENGTH_VARIANCE",
            means="Step times differ because batches hold differing amounts of data, and padding may cost time.",
            fires=(
                "Padded tokens, tokens or samples per step explain half or more of the variance of the step time "
                "(lower end of a 95 % interval that allows for steps that remember each other), and spread by a "
                "tenth or more: an observation. It is a warning if the padding among them takes a tenth of step time or "
                "more, by the slope of the step time over padded tokens."
            ),
            never=(
                "That differing lengths are a fault: the time goes with the work. Slow steps that the amount does not explain "
                "(JITTER), and waits of ranks for the fullest batch (LOAD_IMBALANCE), are not counted here."
            ),
            action="Batch by length, or pack sequences.",
            limits=(
                "lengths_explained",
                "lengths_spread",
                "padding_share_warning",
                "step_loss_floor",
                "run_loss_floor",
            ),
        ),
    ),
    examine=length_variance,
    missing=_missing,
)
