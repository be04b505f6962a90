"""Rises of the loss and of the gradient norm that came back, and gradients that stay too large."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.convergence import Course
from traintrace_analysis.convergence.spikes import Spike
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.convergence.shared import (
    course_of_loss,
    needs_loss,
    needs_norm,
    rank_of,
    steps_listed,
    times,
    value,
)
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count


def loss_spikes(context: Context) -> list[Finding]:
    """Find spikes of the loss that its own noise does not bring about."""
    course, found = course_of_loss(context), context.convergence
    if course is None or found is None or not course.spikes:
        return []
    return [
        observed(
            "LOSS_SPIKE",
            "convergence",
            "warning",
            0.9,
            rank_of(found),
            _evidence(course),
            f"The loss spiked at {_where(course)}.",
            f"{_highest(course, 'loss')} It came back each time.",
            (
                "Look at the batches of these steps and at the learning rate; clip gradients, or skip updates whose "
                "gradient norm is far above the usual one."
            ),
        )
    ]


def gradient_explosions(context: Context) -> list[Finding]:
    """Find gradient norms many times the usual one, for a moment or to the end."""
    found = context.convergence
    if found is None or found.grad_norm is None:
        return []
    course = found.grad_norm
    rise = course.rise
    lasting = rise is not None and rise.ratio is not None and rise.ratio >= limit("grad_rise_ratio")
    if not course.spikes and not lasting:
        return []
    evidence = _evidence(course)
    texts = [_highest(course, "gradient norm")] if course.spikes else []
    headline = f"The gradient norm exploded at {_where(course)}." if course.spikes else ""
    if lasting and rise is not None:
        evidence |= {"rose_at_step": rise.step, "rose_from": rise.low, "rose_to": rise.high}
        texts.append(
            f"From step {rise.step:,} to the end `{course.short_name}` is {value(rise.high)} instead of "
            f"{value(rise.low)}{times(rise.ratio)}."
        )
        headline = headline or (
            f"The gradient norm grew from {value(rise.low)} to {value(rise.high)}, since step {rise.step:,}."
        )
    return [
        observed(
            "GRAD_NORM_EXPLOSION",
            "convergence",
            "warning",
            0.9,
            rank_of(found),
            evidence,
            headline,
            " ".join(texts),
            (
                "Clip gradients by their norm (the usual one is a good limit), lower the learning rate or lengthen its "
                "warm-up, and look at the batches of these steps."
            ),
        )
    ]


def _where(course: Course) -> str:
    return steps_listed([spike.peak_step for spike in course.spikes])


def _top(course: Course) -> Spike | None:
    return max(course.spikes, key=lambda spike: spike.spreads, default=None)


def _highest(course: Course, what: str) -> str:
    top = _top(course)
    assert top is not None
    length = top.last_step - top.first_step + 1
    wide = f", over {count(length, 'step')}" if length > 1 else ""
    return (
        f"At step {top.peak_step:,} `{course.short_name}` was {value(top.peak)} where {value(top.level)} was usual"
        f"{times(top.ratio)}{wide}: {value(top.spreads)} times the noise there, more than the tails of this run's "
        f"{what} explain."
    )


def _evidence(course: Course) -> dict[str, float | int | str | None]:
    top = _top(course)
    return {
        "signal": course.name,
        "spikes_count": len(course.spikes),
        "first_spike_step": course.spikes[0].first_step if course.spikes else None,
        "highest_step": None if top is None else top.peak_step,
        "highest": None if top is None else top.peak,
        "usual": None if top is None else top.level,
        "highest_spreads_ratio": None if top is None else top.spreads,
    }


OF_LOSS: Final = Rule(
    topic="spikes of the loss",
    kinds=(
        Kind(
            name="LOSS_SPIKE",
            means="The loss jumped up for some steps and came back.",
            fires=(
                "Single values, or medians of 3, 8 or 24 in a row, lie six robust standard deviations or more above what is usual "
                "before and after them, a tenth or more above that level and a fiftieth of the first loss, and are "
                "larger, or more in a row, than the run's own noise brings about in one of 200 runs. Where values remember those "
                "before them, a single jump of six standard deviations of the usual ones that came back will do. Needs 64 logged values."
            ),
            never=(
                "A spike of the size of what heavy-tailed noise shows by itself; a rise that did not come back (DIVERGED, "
                "NO_PROGRESS); the first 32 values. It costs no time."
            ),
            action="Look at the batches of these steps; clip gradients or lower the learning rate.",
            limits=(
                "spike_chance",
                "spike_spreads",
                "loss_spike_ratio",
                "loss_spike_of_start",
                "course_values_minimum",
            ),
        ),
    ),
    examine=loss_spikes,
    missing=needs_loss,
)
OF_GRADIENTS: Final = Rule(
    topic="gradient norms",
    kinds=(
        Kind(
            name="GRAD_NORM_EXPLOSION",
            means="The norm of the gradients was many times the usual one.",
            fires=(
                "It is five times the usual one for some steps, by the same test as a spike of the loss; or it "
                "ends ten times above its lowest level, as far outside of its noise as a loss that blew up."
            ),
            never="That training was harmed: clipping may have caught it. Norms of single layers are not looked at.",
            action="Clip gradients by their norm, lower the learning rate or lengthen its warm-up.",
            limits=(
                "spike_chance",
                "spike_spreads",
                "grad_spike_ratio",
                "grad_rise_ratio",
                "rise_clearness",
                "course_values_minimum",
            ),
        ),
    ),
    examine=gradient_explosions,
    missing=needs_norm,
)
