"""Training that is lost: the loss is no number any more, or has blown up and stays up."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.convergence import Course
from traintrace_analysis.convergence.course import Rise
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.rules.convergence.shared import (
    needs_any,
    not_finite_note,
    rank_of,
    seconds_after,
    times,
    value,
)
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, percent, seconds

_LOOK: Final = (
    "lower the learning rate or lengthen its warm-up, clip gradients, look at the batches of the steps before, "
    "and stop a run whose loss is no number (`Trainer(detect_anomaly=True)` or `torch.autograd.detect_anomaly` name "
    "the operation)"
)


def diverged(context: Context) -> list[Finding]:
    """Find the step from which on training was lost."""
    found = context.convergence
    if found is None:
        return []
    loss, norm = found.loss, found.grad_norm
    if loss is not None and loss.lost is not None:
        return [_not_finite(context, loss, "The loss")]
    if norm is not None and norm.lost is not None:
        if norm.lost.values >= limit("lost_norms_minimum"):
            return [_not_finite(context, norm, "The gradient norm")]
    if loss is not None and loss.rise is not None and is_blow_up(loss.rise):
        return [_blown_up(context, loss, loss.rise)]
    return []


def is_blow_up(rise: Rise) -> bool:
    """Tell a blow-up from a loss that merely gets worse: much higher, and most of what was learnt is gone."""
    far = rise.growth >= limit("diverged_ratio") - 1.0
    return far and rise.lost >= limit("diverged_lost_share") and not rise.may_be_good


def _not_finite(context: Context, course: Course, what: str) -> Finding:
    lost = course.lost
    assert lost is not None
    after = seconds_after(context, lost.step)
    certain = lost.values >= limit("lost_values_certain")
    verb = "was" if certain else "was at last"
    last = (
        "" if course.last is None else f" Its last finite values were around {value(course.last)}."
    )
    return _finding(
        context,
        severity="critical" if certain else "warning",
        confidence=0.99 if certain else 0.7,
        cost_s=after,
        evidence={
            "signal": course.name,
            "step": lost.step,
            "values_since": lost.values,
            "values_not_finite": course.not_finite,
            "values_count": course.count,
            "last_finite": course.last,
            "seconds_after_s": after,
        },
        headline=f"{what} {verb} infinite or NaN from step {lost.step:,} to the end.",
        why=(
            f"`{course.short_name}` was logged {count(course.count, 'time')}; of the values from step {lost.step:,} on "
            f"({lost.values:,}) none was finite.{last} The {seconds(after)} after that step trained nothing."
            f"{not_finite_note(course)}"
        ),
        action=f"Go back to a checkpoint before step {lost.step:,}; {_LOOK}.",
    )


def _blown_up(context: Context, course: Course, rise: Rise) -> Finding:
    after = seconds_after(context, rise.step)
    return _finding(
        context,
        severity="critical",
        confidence=0.95,
        cost_s=after,
        evidence={
            "signal": course.name,
            "step": rise.step,
            "lowest": rise.low,
            "last": rise.high,
            "start": rise.start,
            "lost_share": rise.lost,
            "clearness_ratio": rise.clearness,
            "seconds_after_s": after,
        },
        headline=(
            f"The loss blew up at step {rise.step:,} and stayed up: from {value(rise.low)} to "
            f"{value(rise.high)}."
        ),
        why=(
            f"`{course.short_name}` had come from {value(rise.start)} to {value(rise.low)} by step {rise.low_step:,}; at "
            f"the end it is {value(rise.high)}{times(rise.ratio)}, so {percent(rise.lost)} of what was gained is "
            f"lost. The rise is {value(rise.clearness)} times what neighbouring stretches differ by. The "
            f"{seconds(after)} after that step trained nothing that lasts.{not_finite_note(course)}"
        ),
        action=f"Go back to a checkpoint before step {rise.step:,}; {_LOOK}.",
    )


def _finding(
    context: Context,
    *,
    severity: Severity,
    confidence: float,
    cost_s: float,
    evidence: dict[str, float | int | str | None],
    headline: str,
    why: str,
    action: str,
) -> Finding:
    found = context.convergence
    assert found is not None
    return Finding(
        id="diverged",
        kind="DIVERGED",
        family="convergence",
        severity=severity,
        confidence=confidence,
        ranks=rank_of(found),
        evidence=evidence,
        cost_s=cost_s if severity == "critical" else 0.0,
        cost_basis="window",
        gain=None,
        headline=headline,
        why=why,
        action=action,
    )


RULE: Final = Rule(
    topic="divergence",
    kinds=(
        Kind(
            name="DIVERGED",
            means="Training is lost: the loss is infinite or NaN, or has blown up and did not come back.",
            fires=(
                "From some step on no logged loss was finite (with one such value, the last, it is a warning; "
                "of gradient norms ten are needed, since mixed precision skips single ones). Or the loss ended "
                "half as high again as its lowest level, with half or more of what it had gained lost, ten times "
                "farther up than neighbouring stretches differ and 2.5 times farther than it ever rose before. "
                "Its cost is all the time after that step."
            ),
            never=(
                "Why: learning rate, data and a defect look alike. Nothing about values whose names are not those of "
                "a training loss or a gradient norm, and nothing about losses of a game (actor, critic, "
                "generator, discriminator), or of rewards, beyond their numbers. That a value between 0 and 1 that "
                "only ever rose is lost: it may be an accuracy, and NO_PROGRESS tells it."
            ),
            action="Go back to a checkpoint before that step; lower the learning rate, clip, look at the data.",
            limits=(
                "lost_values_certain",
                "lost_norms_minimum",
                "diverged_ratio",
                "diverged_lost_share",
                "rise_clearness",
                "rise_over_earlier",
            ),
        ),
    ),
    examine=diverged,
    missing=needs_any,
    needs_steps=False,
)
