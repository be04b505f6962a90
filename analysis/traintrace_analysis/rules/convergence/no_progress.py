"""A loss that gets worse, or that stopped falling long before the end."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.convergence.diverged import is_blow_up
from traintrace_analysis.rules.convergence.shared import (
    course_of_loss,
    needs_loss,
    rank_of,
    seconds_after,
    times,
    value,
)
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, seconds


def no_progress(context: Context) -> list[Finding]:
    """Find a loss that ends clearly above its lowest level, or fell and then stayed for half of the run."""
    course, found = course_of_loss(context), context.convergence
    if course is None or found is None or found.lost_from is not None:
        return []
    rise, plateau = course.rise, course.plateau
    if rise is not None:
        slight = rise.growth < limit("worse_ratio") - 1.0
        if is_blow_up(rise) or slight:
            return []
        return [
            observed(
                "NO_PROGRESS",
                "convergence",
                "warning",
                0.9,
                rank_of(found),
                {
                    "signal": course.name,
                    "step": rise.step,
                    "lowest": rise.low,
                    "last": rise.high,
                    "start": rise.start,
                    "lost_share": rise.lost,
                    "clearness_ratio": rise.clearness,
                },
                f"The loss got worse: from {value(rise.low)} to {value(rise.high)}, since step {rise.step:,}.",
                (
                    f"`{course.short_name}` was lowest around step {rise.low_step:,}; at the end it is "
                    f"{value(rise.high)}{times(rise.ratio)}, and {percent(rise.lost)} of what had been gained is lost. "
                    "Neighbouring stretches differ by a tenth of that at most."
                ),
                (
                    "Compare the learning rate and the data before and after that step; if the task became "
                    "harder there (a curriculum, other data), or if more of it is better, nothing is wrong."
                ),
            )
        ]
    if plateau is None:
        return []
    idle = seconds_after(context, plateau.step)
    if idle < limit("run_loss_floor"):
        return []
    return [
        observed(
            "NO_PROGRESS",
            "convergence",
            "info",
            0.9,
            rank_of(found),
            {
                "signal": course.name,
                "step": plateau.step,
                "start": plateau.start,
                "level": plateau.level,
                "most_fallen_share": plateau.most_share,
                "seconds_since_s": idle,
            },
            f"The loss has not fallen since step {plateau.step:,}, {seconds(idle)} before the end.",
            (
                f"`{course.short_name}` fell from {value(plateau.start)} to {value(plateau.level)} until then; of that fall, it "
                f"can have gained {percent(plateau.most_share)} at most since (99 % confidence)."
            ),
            (
                "If nothing else gets better either, e.g. an accuracy or the loss of an evaluation, stop there, "
                "or change the learning rate's schedule."
            ),
        )
    ]


RULE: Final = Rule(
    topic="progress of the loss",
    kinds=(
        Kind(
            name="NO_PROGRESS",
            means="The loss ends above where it had been, or stopped falling in the first half of the run.",
            fires=(
                "The loss ends a tenth or more above its lowest level and far outside of its noise (as for DIVERGED, "
                "which takes what is worse): a warning. Or it fell by a tenth or more, and since half of "
                "the run or longer, a minute at least, has not fallen by another hundredth of that, with 99 % "
                "confidence: an observation."
            ),
            never=(
                "That a loss that was level from the first step on should have fallen: noise around a level, and "
                "going on with a model that is trained already, look the same. That the time was wasted."
            ),
            action="Look at the learning rate and the data from that step on, or stop there.",
            limits=(
                "worse_ratio",
                "rise_clearness",
                "rise_over_earlier",
                "course_values_minimum",
                "plateau_values_minimum",
                "plateau_fall_share",
                "plateau_margin",
                "run_loss_floor",
            ),
        ),
    ),
    examine=no_progress,
    missing=needs_loss,
)
