"""What the gate of pairs answers at a look: the decision, its bounds, and one line of words."""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit

Decision = Literal["FAIL", "PASS", "INCONCLUSIVE", "CONTINUE"]
Fit: TypeAlias = tuple[float, float]
"""ln(B / A) and its standard error."""

LOOKS: Final = (4, 6, 9, 12)


@dataclass(frozen=True, slots=True)
class MeanStep:
    """What the means add to a decision about the usual step.

    Attributes:
        fit: The change of the mean.
        apart: Whether it changes for the worse, and otherwise than the usual step.
        blocks: Whether the usual step would pass, and the mean alone does not.
    """

    fit: Fit
    apart: bool
    blocks: bool


@dataclass(frozen=True, slots=True)
class GateRule:
    """What counts.

    Attributes:
        minimum_effect: A share; a smaller slowdown never fails, however certain.
        margin: A share; B passes where more than this can be excluded, of the usual step and of the mean.
    """

    minimum_effect: float
    margin: float


@dataclass(frozen=True, slots=True)
class PairsDecision:
    """Where the gate stands; numbers are those of the latest look, None before the first.

    Attributes:
        decision: CONTINUE asks for more pairs, up to `next_look`.
        pairs: How many pairs the decision rests on.
        ratio: Step time of B over that of A. low, high: one-sided bounds, FAIL needs low > 1 and
            PASS needs high < 1 + margin, of the mean step as well. All are of the usual step, or of the mean
            if that alone fails.
        smallest_detectable: The least slowdown that such pairs would show 8 times in 10; a share.
        error_rate: Chance of a false FAIL over all looks.
        headline: The decision in one line.
    """

    decision: Decision
    pairs: int
    next_look: int | None
    ratio: float | None
    low: float | None
    high: float | None
    smallest_detectable: float | None
    error_rate: float
    headline: str


def default_rule() -> GateRule:
    """Give the rule of the thresholds: fails from 1 %, passes under 3 %."""
    return GateRule(limit("change_minimum"), limit("equivalence_margin"))


def alpha_of(look: int) -> float:
    """Give the chance of a false alarm that the look after so many pairs may spend."""
    return limit(f"gate_alpha_{look}_pairs")


def freedom_of(look: int) -> int:
    """Give the degrees of freedom after `look` pairs: two runs each, three coefficients."""
    return 2 * look - 3


def usual_alpha(look: int) -> float:
    """Give what the usual step may spend of that."""
    return alpha_of(look) * (1.0 - limit("gate_mean_share"))


def mean_alpha(look: int) -> float:
    """Give what the means may spend of it."""
    return alpha_of(look) * limit("gate_mean_share")


def decision_of(
    decision: Decision, look: int, usual: Fit, rule: GateRule, mean: MeanStep | None = None
) -> PairsDecision:
    """Put a decision about the usual step into numbers and words; without `mean` none was known."""
    ratio, low, high = _bounds(usual, look, usual_alpha(look))
    detectable = _detectable(usual[1], look, usual_alpha(look), rule)
    later = [other for other in LOOKS if other > look]
    highest, long = high, ""
    if mean is not None:
        of_mean, _, mean_high = _bounds(mean.fit, look, mean_alpha(look))
        highest = max(high, mean_high)
        if mean.apart:
            long = f"; by long steps the mean step is {_percent(of_mean - 1.0)} slower"
        if mean.blocks:
            detectable = max(detectable, _detectable(mean.fit[1], look, mean_alpha(look), rule))
            long = (
                f"; the usual step would pass, but by long steps the mean step may be "
                f"{_percent(mean_high - 1.0)} slower"
            )
    words = {
        "FAIL": f"B is {_percent(ratio - 1.0)} slower than A",
        "PASS": _passes(highest, rule),
        "INCONCLUSIVE": "The pairs do not decide",
        "CONTINUE": "Not decided yet",
    }
    return PairsDecision(
        decision=decision,
        pairs=look,
        next_look=later[0] if later and decision == "CONTINUE" else None,
        ratio=ratio,
        low=low,
        high=high,
        smallest_detectable=detectable,
        error_rate=_error_rate(),
        headline=f"{words[decision]}, after {look} pairs{long}; {_seen(decision, detectable)}.",
    )


def mean_fails(look: int, usual: Fit, mean: Fit, rule: GateRule) -> PairsDecision:
    """Fail by the mean, where the usual step does not."""
    ratio, low, high = _bounds(mean, look, mean_alpha(look))
    detectable = _detectable(mean[1], look, mean_alpha(look), rule)
    return PairsDecision(
        decision="FAIL",
        pairs=look,
        next_look=None,
        ratio=ratio,
        low=low,
        high=high,
        smallest_detectable=detectable,
        error_rate=_error_rate(),
        headline=f"By long steps the mean step of B is {_percent(ratio - 1.0)} slower than that of A "
        f"(the usual step {100.0 * math.expm1(usual[0]):+.1f} %), after {look} pairs; "
        f"{_seen('FAIL', detectable)}.",
    )


def _bounds(fit: Fit, look: int, alpha: float) -> tuple[float, float, float]:
    """Give the ratio and its one-sided bounds: below which it fails, above which it passes."""
    difference, error = fit
    freedom = freedom_of(look)
    high = difference + critical(limit("equivalence_error"), freedom) * error
    return (
        math.exp(difference),
        math.exp(difference - critical(alpha, freedom) * error),
        math.exp(high),
    )


def _detectable(error: float, look: int, alpha: float, rule: GateRule) -> float:
    freedom = freedom_of(look)
    power = critical(1.0 - limit("detection_power"), freedom)
    return max(math.expm1((critical(alpha, freedom) + power) * error), rule.minimum_effect)


def _passes(high: float, rule: GateRule) -> str:
    if high < 1.0:
        return f"B is not slower than A but faster, by {_percent(1.0 - high)} at the least"
    return (
        f"B is not slower than A by {_percent(rule.margin)} or more: {_percent(high - 1.0)} at most"
    )


def _seen(decision: Decision, detectable: float) -> str:
    """Say what could be seen; of what was decided, that smaller changes are seen less often."""
    least = _percent(detectable)
    if decision in ("FAIL", "PASS"):
        return f"a slowdown of {least} would fail 8 times in 10"
    return f"less than {least} could not have been seen"


def waiting(pairs: int) -> PairsDecision:
    """Say that the first look is still to come."""
    return PairsDecision(
        decision="CONTINUE",
        pairs=pairs,
        next_look=LOOKS[0],
        ratio=None,
        low=None,
        high=None,
        smallest_detectable=None,
        error_rate=_error_rate(),
        headline=f"{pairs} of the {LOOKS[0]} pairs before the first look.",
    )


def _error_rate() -> float:
    return sum(alpha_of(look) for look in LOOKS)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if abs(share) < 0.1 else f"{100.0 * share:.0f} %"
