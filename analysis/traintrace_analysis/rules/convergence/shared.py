"""What the rules about convergence share: what they need, and how they write values."""

import numpy as np

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.convergence import Convergence, Course
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, number, percent

_NOTHING = "no loss was logged; traintrace.log(loss=loss) or the framework's own logging does it"


def course_of_loss(context: Context) -> Course | None:
    """Give the course of the training loss."""
    return None if context.convergence is None else context.convergence.loss


def needs_loss(context: Context) -> str:
    """Say that no loss was logged, too few values of it, or one that need not fall."""
    course = course_of_loss(context)
    if course is not None and course.role == "contested_loss":
        return "the loss (rewards, or parts of a game, are logged beside it: it need not fall)"
    return _needs(course, "the loss")


def needs_any(context: Context) -> str:
    """Say that neither a loss nor a gradient norm was logged."""
    found = context.convergence
    if found is not None and (found.loss is not None or found.grad_norm is not None):
        return ""
    return f"the loss ({_NOTHING})"


def needs_norm(context: Context) -> str:
    """Say that no norm of the gradients was logged."""
    found = context.convergence
    if found is not None and found.loss is not None and found.grad_norm is None:
        return "the gradient norm (none was logged)"
    return _needs(None if found is None else found.grad_norm, "the gradient norm")


def needs_both(context: Context) -> str:
    """Say what is missing to compare logged values with the steps."""
    found = context.convergence
    if needs_any(context) or found is None:
        return needs_any(context)
    most = max(one.count for one in (found.loss, found.grad_norm) if one is not None)
    return _too_few("signals together", most, int(limit("meeting_values_minimum")))


def _needs(course: Course | None, what: str) -> str:
    if course is None:
        return f"{what} ({_NOTHING})"
    return _too_few(what, course.count, int(limit("course_values_minimum")))


def _too_few(what: str, count: int, needed: int) -> str:
    return "" if count >= needed else f"{what} (logged {count} times; {needed} are needed)"


def seconds_after(context: Context, step: int) -> float:
    """Give the wall time of the representative rank from the end of `step` to its last step, in seconds.

    For a step before the window the mean row stands for those that were not looked at.
    """
    window, row = context.window, context.row
    steps = window.steps
    if not len(steps) or step >= int(steps[-1]):
        return 0.0
    begin, end = window.start_ns[row], window.close_ns[row]
    place = min(int(np.searchsorted(steps, step, side="right")), len(steps) - 1)
    after = float(end[-1] - begin[place]) / NS_PER_S
    missing = int(steps[0]) - step - 1
    if missing > 0:
        after += missing * float(end[-1] - begin[0]) / NS_PER_S / len(steps)
    return after


def value(number_: float) -> str:
    """Write a logged value: three digits, as a power of ten where it is huge or tiny."""
    size = abs(number_)
    return f"{number_:.3g}" if size and not 1e-4 <= size < 1e6 else number(number_)


def not_finite_note(course: Course) -> str:
    """Say how many values were not finite without staying so; nothing if none were."""
    count = course.not_finite - (course.lost.values if course.lost else 0)
    if count < 1:
        return ""
    were = "value was" if count == 1 else "values were"
    return f" {count:,} other {were} infinite or NaN and came back."


def rank_of(found: Convergence) -> tuple[int, ...]:
    """Give the rank that logged, as findings name it."""
    return () if found.rank is None else (found.rank,)


def steps_listed(steps: list[int]) -> str:
    """Write "step 70", "steps 70, 412 and 3 more"."""
    shown = [f"{step:,}" for step in steps[:3]]
    if len(steps) > 3:
        shown.append(f"{len(steps) - 3} more")
    return f"{'step' if len(steps) == 1 else 'steps'} {listed(shown)}"


def times(ratio: float | None) -> str:
    """Write how many times as large, or nothing where that is not known."""
    if ratio is None:
        return ""
    return f" ({value(ratio)} times)" if ratio >= 2.0 else f" ({percent(ratio - 1.0)} more)"
