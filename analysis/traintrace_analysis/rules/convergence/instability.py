"""Steps at which the loss or the gradient norm moves together with other signals, beyond chance."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.convergence.together import AMOUNTS, Meeting
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.convergence.shared import needs_both, rank_of, value
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.wording import listed

_TOLD: Final = {
    "loss": "loss",
    "grad_norm": "gradient norm",
    "step_time": "step time",
    "memory": "memory",
    "padded_tokens": "padded tokens",
    "tokens": "tokens",
    "samples": "samples",
}
_SHOWN: Final = 3


def correlated_instability(context: Context) -> list[Finding]:
    """Find steps at which signals that are measured apart stick out together."""
    found = context.convergence
    if found is None or not found.meetings:
        return []
    first, more = found.meetings[0], found.meetings[1:]
    others = f" {_also(more)}" if more else ""
    unlikely = max(one.by_chance for one in found.meetings)
    return [
        observed(
            "CORRELATED_INSTABILITY",
            "convergence",
            "warning",
            1.0 - min(0.05, unlikely * 5.0),
            rank_of(found),
            {
                "meetings_count": len(found.meetings),
                "first_step": first.first_step,
                "last_step": first.last_step,
                "signals": ", ".join(first.signals),
                "by_chance": unlikely,
                **{
                    f"{name}_spreads_ratio": size
                    for name, size in zip(first.signals, first.spreads, strict=True)
                },
            },
            f"{_names(first)} rose together at {_steps(first)}."
            if not first.of_batch
            else (f"{_names(first)} stand out together at {_steps(first)}: an unusual batch."),
            (
                f"Against what is usual around them: {_sizes(first)}, each in robust standard deviations of its own "
                f"noise and beyond its tails.{others} By chance, such meetings would be seen in a run "
                f"{value(unlikely)} times at most, so it is one event. Which signal moved first, steps cannot tell."
            ),
            (
                f"Look at the batch and the learning rate at {_steps(first)}: an outlier in the data, a step of the "
                "schedule, a checkpoint that was restored; clip gradients."
            ),
        )
    ]


def _names(meeting: Meeting) -> str:
    text = listed([_TOLD[name] for name in meeting.signals])
    return text[:1].upper() + text[1:]


def _steps(meeting: Meeting) -> str:
    if meeting.first_step == meeting.last_step:
        return f"step {meeting.first_step:,}"
    return f"steps {meeting.first_step:,} to {meeting.last_step:,}"


def _sizes(meeting: Meeting) -> str:
    return listed(
        [
            f"{_TOLD[name]} {value(size)}"
            for name, size in zip(meeting.signals, meeting.spreads, strict=True)
        ]
    )


def _also(meetings: tuple[Meeting, ...]) -> str:
    shown = [
        f"{_steps(one)} ({', '.join(_TOLD[name] for name in one.signals)})"
        for one in meetings[:_SHOWN]
    ]
    if len(meetings) > _SHOWN:
        shown.append(f"{len(meetings) - _SHOWN} more")
    return f"Also at {listed(shown)}."


RULE: Final = Rule(
    topic="signals that move together",
    kinds=(
        Kind(
            name="CORRELATED_INSTABILITY",
            means="Loss or gradient norm rose at the same steps as signals that are measured apart from them.",
            fires=(
                "At a step of the window, or one beside it, two or more of loss, gradient norm, step time, memory and "
                f"the amounts of data ({', '.join(_TOLD[name] for name in AMOUNTS)}; these down as well) lie five robust "
                "standard deviations or more off, each outside of the tails of its own noise, and chance would bring such "
                "meetings together in at most one of 100 runs: marks of one signal, times the shares of steps that the "
                "others' marks take, times the number of sets that could have met. Needs 64 steps with a logged value."
            ),
            never=(
                "What came first. Steps after the loss stopped being finite do not count; a slow or large step that its batch "
                "explains does not either, nor steps that are slow because they log: only steps that log are compared."
            ),
            action="Look at the batch and the learning rate at these steps.",
            limits=("meeting_chance", "meeting_spreads", "mark_chance", "meeting_values_minimum"),
        ),
    ),
    examine=correlated_instability,
    missing=needs_both,
)
