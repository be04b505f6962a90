"""The gate of interleaved pairs: A B, B A, A B, ... with looks after 4, 6, 9 and 12 pairs.

The run is the unit: one number each, its mean ln(step time). A straight line in time and the side
are fitted to all runs, and the side's coefficient is tested by Student's t. That costs one degree
of freedom and has 2 k - 3 of k pairs, where the differences of pairs have k - 1: at six pairs the
t to exceed is 4.2 and not 5.7. A machine that grows steadily slower cancels out; one that
wanders leaves more in the residuals than in the comparison of neighbours, so the error errs high.

Looking four times is paid for: the chances of a false alarm add up to 1 %.

Mean ln(step time) is that of the usual step: outliers are pulled in. A stall in each twentieth step hardly
moves it and costs as much as any other, so the means are asked as well: they may FAIL, for a fifth of the
error, and a PASS needs both. Where long steps come by chance the means tell less, and fewer gates pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from traintrace_analysis.comparison.gate_answers import (
    LOOKS,
    Decision,
    Fit,
    GateRule,
    MeanStep,
    PairsDecision,
    alpha_of,
    decision_of,
    default_rule,
    freedom_of,
    mean_alpha,
    mean_fails,
    usual_alpha,
    waiting,
)
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit

__all__ = [
    "LOOKS",
    "Answers",
    "Decision",
    "GateRule",
    "Pair",
    "PairsDecision",
    "alpha_of",
    "decide",
    "default_rule",
    "estimate",
    "freedom_of",
    "interleaved",
    "judge",
    "judge_both",
]

Fits: TypeAlias = tuple[Floats, Floats]
"""ln(B / A) of many gates, and their standard errors."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run of each side, started one after the other.

    Attributes:
        a_log, b_log: Mean ln(step time) of the runs (`statistics.step_time.log_mean`).
        a_first: Which was started first.
        a_mean_log, b_mean_log: ln of the mean step time, long steps at their full length; None leaves
            the decision to the usual step alone.
    """

    a_log: float
    b_log: float
    a_first: bool
    a_mean_log: float | None = None
    b_mean_log: float | None = None


def interleaved(pairs: int) -> tuple[bool, ...]:
    """Tell by pair whether A goes first: A B, B A, A B, ..."""
    return tuple(index % 2 == 0 for index in range(pairs))


def decide(
    pairs: Sequence[Pair], rule: GateRule | None = None, *, most: int = LOOKS[-1]
) -> PairsDecision:
    """Decide after the pairs so far; a decision once made at a look stays.

    Args:
        pairs: In the order in which they ran.
        rule: What counts; None for the thresholds' own.
        most: So many pairs are allowed: the look after which an open answer is INCONCLUSIVE.

    Raises:
        ValueError: A mean is not finite.
    """
    rule = rule or default_rule()
    if not all(math.isfinite(level) for pair in pairs for level in (pair.a_log, pair.b_log)):
        raise ValueError("a_log and b_log must be finite: a run without a step time is no run")
    reached = [look for look in LOOKS if look <= len(pairs)]
    if not reached:
        return waiting(len(pairs))
    for look in reached:
        usual, mean = _fits(pairs, look)
        now = judge_both(_one(usual), None if mean is None else _one(mean), look, rule)
        beside = None if mean is None else MeanStep(mean, bool(now.apart[0]), bool(now.blocks[0]))
        if mean is not None and now.mean_fails[0]:
            return mean_fails(look, usual, mean, rule)
        if now.fails[0] or now.passes[0]:
            return decision_of("FAIL" if now.fails[0] else "PASS", look, usual, rule, beside)
    last: Decision = "INCONCLUSIVE" if look >= most else "CONTINUE"
    return decision_of(last, look, usual, rule, beside)


def _fits(pairs: Sequence[Pair], look: int) -> tuple[Fit, Fit | None]:
    """Fit the usual steps, and the means if all runs have them."""
    a_first = tuple(pair.a_first for pair in pairs)
    usual = _fit([pair.a_log for pair in pairs], [pair.b_log for pair in pairs], a_first, look)
    a = [pair.a_mean_log for pair in pairs if pair.a_mean_log is not None]
    b = [pair.b_mean_log for pair in pairs if pair.b_mean_log is not None]
    whole = len(a) == len(b) == len(pairs)
    return usual, _fit(a, b, a_first, look) if whole else None


def _fit(a_log: Sequence[float], b_log: Sequence[float], a_first: Sequence[bool], look: int) -> Fit:
    difference, error = estimate(np.array([a_log]), np.array([b_log]), a_first, look)
    return float(difference[0]), float(error[0])


def _one(fit: Fit) -> Fits:
    return np.array([fit[0]]), np.array([fit[1]])


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


@dataclass(frozen=True, slots=True)
class Answers:
    """What gates say at a look, an entry each; of the first three at most one holds.

    Attributes:
        fails: The usual step is slower.
        mean_fails: The mean step is, and otherwise than the usual one.
        passes: A slowdown beyond the margin can be excluded, of the usual step and of the mean.
        apart: The mean changes for the worse, and otherwise than the usual step.
        blocks: It can be excluded of the usual step alone.
    """

    fails: Marks
    mean_fails: Marks
    passes: Marks
    apart: Marks
    blocks: Marks


def judge_both(usual: Fits, mean: Fits | None, look: int, rule: GateRule) -> Answers:
    """Judge many gates at a look; without means by the usual step alone."""
    fails, passes = judge(*usual, look, rule)
    if mean is None:
        never = np.zeros_like(fails)
        return Answers(fails, never, passes, never, never)
    difference, error = mean
    apart = (difference - usual[0] > limit("tail_disagreement")) & (difference > 0.0)
    low = difference - critical(mean_alpha(look), freedom_of(look)) * error
    slower = ~fails & apart & (low > 0.0) & (difference > math.log1p(rule.minimum_effect))
    high = difference + critical(limit("equivalence_error"), freedom_of(look)) * error
    even = high < math.log1p(rule.margin)
    return Answers(fails, slower, passes & even, apart, passes & ~even & ~slower)


def judge(difference: Floats, error: Floats, look: int, rule: GateRule) -> tuple[Marks, Marks]:
    """Tell which gates fail and which pass at a look by the usual step."""
    freedom = freedom_of(look)
    low = difference - critical(usual_alpha(look), freedom) * error
    high = difference + critical(limit("equivalence_error"), freedom) * error
    fails = (low > 0.0) & (difference > math.log1p(rule.minimum_effect))
    return fails, ~fails & (high < math.log1p(rule.margin))
