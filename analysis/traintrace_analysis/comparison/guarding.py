"""The answer for a threshold that a user set: "not slower by more than P"."""

import math

from traintrace_analysis.comparison.comparability import Comparability
from traintrace_analysis.comparison.estimates import Estimate
from traintrace_analysis.comparison.long_steps import LongSteps, signed_percent
from traintrace_analysis.comparison.model import Guard
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit


def guard_answer(
    max_regression: float | None,
    log: Estimate | None,
    mean: LongSteps | None,
    state: Comparability,
    obstacle: str,
) -> Guard | None:
    """Answer for the threshold; None if none was set.

    SLOWER: the slowdown exceeds the threshold but for one chance in a hundred. WITHIN_THRESHOLD: it
    does not but for one in twenty; a slowdown that equals the threshold is within. FASTER is within,
    and faster beyond chance. All of that is about the usual step; where the mean changes otherwise, as
    by a stall in each tenth step, it may be SLOWER as well, and WITHIN_THRESHOLD needs both.

    Args:
        max_regression: The threshold, a share.
        log: The change of the usual step, a logarithm; None if it cannot be told.
        mean: That of the mean step.
        state: Whether the sides can be compared at all.
        obstacle: Why no number is judged; empty if they are.
    """
    if max_regression is None:
        return None
    reasons = [*state.obstacles, *state.unfinished, *([obstacle] if obstacle else [])]
    if log is None or reasons:
        reason = reasons[0] if reasons else "the step times have no common logarithm"
        return Guard(max_regression, "INCONCLUSIVE", reason)
    bound = math.log1p(max_regression)
    error, freedom = log.error, log.freedom
    low = log.value - critical(limit("comparison_error"), freedom) * error
    high = log.value + critical(limit("equivalence_error"), freedom) * error
    upper = _percent(high)
    if low > bound:
        return Guard(max_regression, "SLOWER", f"slower by {_percent(low)} at the least")
    if mean is not None and mean.apart and mean.known and mean.least > bound:
        return Guard(max_regression, "SLOWER", f"{mean.told} by long steps; {_usual(log)}")
    if mean is not None and high <= bound < mean.most:
        reason = (
            f"{mean.told}, and by long steps it may be up to {_percent(mean.most)}; {_usual(log)}"
        )
        return Guard(max_regression, "INCONCLUSIVE", reason)
    if high <= bound:
        if log.interval(limit("comparison_error"))[1] < 0.0:
            return Guard(max_regression, "FASTER", f"{_percent(log.value)}, beyond chance")
        return Guard(max_regression, "WITHIN_THRESHOLD", f"slower by {upper} at the most")
    passes = _percent(critical(limit("equivalence_error"), freedom) * error)
    return Guard(
        max_regression,
        "INCONCLUSIVE",
        f"the change lies between {_percent(low)} and {upper}, on both sides of the threshold; "
        f"with such runs none below {passes} can be passed",
    )


def _usual(log: Estimate) -> str:
    return f"the usual step changes by {signed_percent(log.value)}"


def _percent(log: float) -> str:
    return f"{100.0 * math.expm1(log):.1f} %"
