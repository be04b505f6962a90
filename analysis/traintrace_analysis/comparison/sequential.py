"""The gate of interleaved pairs: A B, B A, A B, ... with looks after 4, 6, 9 and 12 pairs.

The run is the unit: one number each, its mean ln(step time). A straight line in time and the side
are fitted to all runs, and the side's coefficient is tested by Student's t. That costs one degree
of freedom and has 2 k - 3 of k pairs, where the differences of pairs have k - 1: at six pairs the
t to exceed is 4.0 and not 5.2. A machine that grows steadily slower cancels out; one that
wanders leaves more in the residuals than in the comparison of neighbours, so the error errs high.

Looking four times is paid for: the chances of a false alarm add up to 1 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from traintrace_analysis.comparison.student import critical
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit

Decision = Literal["FAIL", "PASS", "INCONCLUSIVE", "CONTINUE"]

LOOKS: Final = (4, 6, 9, 12)


@dataclass(frozen=True, slots=True)
class Pair:
    """One run of each side, started one after the other.

    Attributes:
        a_log, b_log: Mean ln(step time) of the runs (`statistics.step_time.log_mean`).
        a_first: Which was started first.
    """

    a_log: float
    b_log: float
    a_first: bool


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
            PASS needs high < 1 + margin.
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


def interleaved(pairs: int) -> tuple[bool, ...]:
    """Tell by pair whether A goes first: A B, B A, A B, ..."""
    return tuple(index % 2 == 0 for index in range(pairs))


def alpha_of(look: int) -> float:
    """Give the share of false alarms that the look after so many pairs may spend."""
    return limit(f"gate_alpha_{look}_pairs")


def decide(pairs: Sequence[Pair], rule: GateRule | None = None) -> PairsDecision:
    """Decide after the pairs so far; a decision once made at a look stays.

    Raises:
        ValueError: A mean is not finite.
    """
    rule = rule or default_rule()
    a = np.array([[pair.a_log for pair in pairs]])
    b = np.array([[pair.b_log for pair in pairs]])
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a_log and b_log must be finite: a run without a step time is no run")
    a_first = tuple(pair.a_first for pair in pairs)
    reached = [look for look in LOOKS if look <= len(pairs)]
    if not reached:
        return _waiting(len(pairs))
    for look in reached:
        difference, error = estimate(a, b, a_first, look)
        fails, passes = judge(difference, error, look, rule)
        if fails[0] or passes[0]:
            outcome: Decision = "FAIL" if fails[0] else "PASS"
            return _decision(outcome, look, float(difference[0]), float(error[0]), rule)
    outcome = "INCONCLUSIVE" if look == LOOKS[-1] else "CONTINUE"
    return _decision(outcome, look, float(difference[0]), float(error[0]), rule)


def estimate(
    a_log: Floats, b_log: Floats, a_first: Sequence[bool], look: int
) -> tuple[Floats, Floats]:
    """Give ln(B / A) and its standard error after `look` pairs, for many gates at once.

    Args:
        a_log: Mean ln(step time) of the runs of A, gates by pairs.
        b_log: The same of B.
        a_first: By pair.
        look: How many pairs to use.
    """
    first = np.asarray(a_first[:look], dtype=bool)
    series = np.empty((len(a_log), 2 * look))
    series[:, 0::2] = np.where(first, a_log[:, :look], b_log[:, :look])
    series[:, 1::2] = np.where(first, b_log[:, :look], a_log[:, :look])
    side = np.empty(2 * look)
    side[0::2], side[1::2] = np.where(first, -0.5, 0.5), np.where(first, 0.5, -0.5)
    time = np.arange(2 * look) - (2 * look - 1) / 2.0
    design = np.stack([np.ones(2 * look), side, time], axis=1)
    fitted = series @ np.linalg.pinv(design).T
    residuals = series - fitted @ design.T
    variance = (residuals**2).sum(axis=1) / freedom_of(look)
    unit = float(np.linalg.inv(design.T @ design)[1, 1])
    return fitted[:, 1], np.sqrt(variance * unit)


def freedom_of(look: int) -> int:
    """Give the degrees of freedom after `look` pairs: two runs each, three coefficients."""
    return 2 * look - 3


def judge(difference: Floats, error: Floats, look: int, rule: GateRule) -> tuple[Marks, Marks]:
    """Tell which gates fail and which pass at a look."""
    freedom = freedom_of(look)
    low = difference - critical(alpha_of(look), freedom) * error
    high = difference + critical(limit("equivalence_error"), freedom) * error
    fails = (low > 0.0) & (difference > math.log1p(rule.minimum_effect))
    return fails, ~fails & (high < math.log1p(rule.margin))


def _decision(
    decision: Decision, look: int, difference: float, error: float, rule: GateRule
) -> PairsDecision:
    freedom, alpha = freedom_of(look), alpha_of(look)
    power = critical(1.0 - limit("detection_power"), freedom)
    detectable = max(math.expm1((critical(alpha, freedom) + power) * error), rule.minimum_effect)
    ratio = math.exp(difference)
    high = math.exp(difference + critical(limit("equivalence_error"), freedom) * error)
    later = [other for other in LOOKS if other > look]
    words = {
        "FAIL": f"B is {_percent(ratio - 1.0)} slower than A",
        "PASS": f"B is not slower than A by {_percent(rule.margin)} or more: {_percent(high - 1.0)} at most",
        "INCONCLUSIVE": "The pairs do not decide",
        "CONTINUE": "Not decided yet",
    }
    return PairsDecision(
        decision=decision,
        pairs=look,
        next_look=later[0] if later and decision == "CONTINUE" else None,
        ratio=ratio,
        low=math.exp(difference - critical(alpha, freedom) * error),
        high=high,
        smallest_detectable=detectable,
        error_rate=_error_rate(),
        headline=f"{words[decision]}, after {look} pairs; "
        f"they could not have seen less than {_percent(detectable)}.",
    )


def _waiting(pairs: int) -> PairsDecision:
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
