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
class GateRule:
    """What counts.

    Attributes:
        minimum_effect: A share; a smaller slowdown never fails, however certain.
        margin: A share; B passes where more than this can be excluded.
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
            PASS needs high < 1 + margin. All are of the mean step if that alone fails.
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
    """Give the share of false alarms that the look after so many pairs may spend."""
    return limit(f"gate_alpha_{look}_pairs")


def freedom_of(look: int) -> int:
    """Give the degrees of freedom after `look` pairs: two runs each, three coefficients."""
    return 2 * look - 3


def mean_alpha(look: int) -> float:
    """Give the share of false alarms that the means may add at that look."""
    return alpha_of(look) * limit("long_steps_error") / limit("comparison_error")


def speaks_against(mean: Fit | None, look: int, rule: GateRule) -> bool:
    """Tell whether the mean forbids a PASS: beyond the margin, and at the last look not by chance."""
    if mean is None or mean[0] < math.log1p(rule.margin):
        return False
    if look < LOOKS[-1]:
        return True  # more pairs tell
    return mean[0] > critical(limit("equivalence_error"), freedom_of(look)) * mean[1]


def decision_of(
    decision: Decision, look: int, usual: Fit, rule: GateRule, mean: Fit | None = None
) -> PairsDecision:
    """Put a decision about the usual step into numbers and words; `mean` if it changes otherwise."""
    ratio, low, high = _bounds(usual, look, alpha_of(look))
    detectable = _detectable(usual[1], look, alpha_of(look), rule)
    later = [other for other in LOOKS if other > look]
    words = {
        "FAIL": f"B is {_percent(ratio - 1.0)} slower than A",
        "PASS": _passes(high, rule),
        "INCONCLUSIVE": "The pairs do not decide",
        "CONTINUE": "Not decided yet",
    }
    long = ""
    if mean is not None:
        against = speaks_against(mean, look, rule)
        long = f"; by long steps the mean step is {_percent(math.expm1(mean[0]))} slower"
        long += "" if against else ", within chance"
        if against and decision != "FAIL":
            detectable = max(detectable, _detectable(mean[1], look, mean_alpha(look), rule))
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
