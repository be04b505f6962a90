"""The gate against history: new runs of one change against stored runs of the baseline.

Pairs are of the same hour, and what is rare and bad hits both sides alike. A baseline of ten runs may hold
none of it, and a new run that does looks slower: more than 1 % of the same code fails there.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from traintrace_analysis.comparison.sequential import GateRule, default_rule
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class HistoryDecision:
    """Whether new runs are slower than the baseline's runs.

    Attributes:
        decision: FAIL, PASS or INCONCLUSIVE.
        new_runs, baseline_runs: How many it rests on.
        ratio: Typical step time of the new runs over that of the baseline.
        low, high: One-sided bounds; FAIL needs low > 1, PASS needs high < 1 + margin, of the mean step as
            well. All numbers are of the usual step, or of the mean if that alone fails, or alone stands
            against a PASS.
        predicted_high: A new run of the same code exceeds this ratio once in a hundred times.
        run_sd_log: How much the baseline's runs differ; 0.01 is 1 %.
        smallest_detectable: The least slowdown that would be found 8 times in 10; a share.
        error_rate: Chance of a false FAIL where runs differ by a normal law. Ten runs do not show whether
            they do: simulated, it is up to 7 % where single runs stray (`history_error_straying`).
        headline: The decision in one line.
    """

    decision: Literal["FAIL", "PASS", "INCONCLUSIVE"]
    new_runs: int
    baseline_runs: int
    ratio: float
    low: float
    high: float
    predicted_high: float
    run_sd_log: float
    smallest_detectable: float
    error_rate: float
    headline: str


def judge_history(
    new: Sequence[float],
    baseline: Sequence[float],
    rule: GateRule | None = None,
    *,
    means: tuple[Sequence[float], Sequence[float]] | None = None,
) -> HistoryDecision:
    """Judge new runs by Student's t prediction interval of the baseline's.

    Args:
        new: Mean ln(step time) of each new run: that of its usual step.
        baseline: The same of at least ten runs of the baseline, on the same machine.
        rule: What counts; None takes the thresholds'.
        means: ln(mean step time) of the new runs and of the baseline, which holds long steps at their
            full length; None leaves the decision to the usual step alone.

    Raises:
        ValueError: Too few runs, or a mean is not finite.
    """
    rule = rule or default_rule()
    needed = int(limit("history_runs_minimum"))
    if len(baseline) < needed:
        raise ValueError(f"baseline: {len(baseline)} runs, {needed} needed for a prediction")
    if not new:
        raise ValueError("new: no run to judge")
    if not all(math.isfinite(level) for level in (*new, *baseline)):
        raise ValueError("log_mean must be finite: a run without a step time is no run")
    usual = _against(new, baseline)
    mean = _of_means(usual, means)
    apart = mean if mean is not None and _apart(usual, mean) else None
    alpha, floor = limit("comparison_error"), math.log1p(rule.minimum_effect)
    if usual.low(alpha) > 0.0 and usual.difference > floor:
        return _told("FAIL", usual, alpha, rule, f"{_slower(usual)}{_mean_words(apart)}")
    strict = limit("long_steps_history_error")
    if apart is not None and apart.low(strict) > 0.0 and apart.difference > floor:
        by = f"in the mean, by long steps (the usual step {_signed(usual.difference)})"
        return _told("FAIL", apart, strict, rule, f"{_slower(apart)} {by}")
    margin = math.log1p(rule.margin)
    if usual.high >= margin:
        words = f"{_undecided(usual, alpha)}{_mean_words(apart)}"
        return _told("INCONCLUSIVE", usual, alpha, rule, words)
    if mean is not None and mean.high >= margin:
        words = (
            f"The usual step ({_signed(usual.difference)}) would pass, but by long steps the mean step "
            f"may be {100.0 * math.expm1(mean.high):.1f} % slower"
        )
        return _told("INCONCLUSIVE", mean, strict, rule, words)
    return _told("PASS", usual, alpha, rule, f"{_not_slower(usual)}{_mean_at_most(usual, mean)}")


@dataclass(frozen=True, slots=True)
class _Difference:
    """New runs minus the baseline, as a logarithm, with its error from the baseline's spread."""

    new: int
    baseline: int
    difference: float
    spread: float

    @property
    def error(self) -> float:
        return self.spread * math.sqrt(1.0 / self.new + 1.0 / self.baseline)

    def reach(self, chance: float) -> float:
        return critical(chance, self.baseline - 1) * self.error

    def low(self, chance: float) -> float:
        return self.difference - self.reach(chance)

    @property
    def high(self) -> float:
        return self.difference + self.reach(limit("equivalence_error"))


def _against(new: Sequence[float], baseline: Sequence[float]) -> _Difference:
    difference = statistics.fmean(new) - statistics.fmean(baseline)
    return _Difference(len(new), len(baseline), difference, statistics.stdev(baseline))


def _of_means(
    usual: _Difference, means: tuple[Sequence[float], Sequence[float]] | None
) -> _Difference | None:
    """Give the difference of the means; None if not all runs have one."""
    if means is None or (len(means[0]), len(means[1])) != (usual.new, usual.baseline):
        return None
    return _against(*means)


def _apart(usual: _Difference, mean: _Difference) -> bool:
    """Tell whether the mean changes for the worse, and otherwise than the usual step."""
    gained = mean.difference - usual.difference
    return gained > limit("tail_disagreement") and mean.difference > 0.0


def _told(
    decision: Literal["FAIL", "PASS", "INCONCLUSIVE"],
    of: _Difference,
    alpha: float,
    rule: GateRule,
    words: str,
) -> HistoryDecision:
    power = of.reach(1.0 - limit("detection_power"))
    detectable = max(math.expm1(of.reach(alpha) + power), rule.minimum_effect)
    return HistoryDecision(
        decision=decision,
        new_runs=of.new,
        baseline_runs=of.baseline,
        ratio=math.exp(of.difference),
        low=math.exp(of.low(alpha)),
        high=math.exp(of.high),
        predicted_high=math.exp(of.reach(limit("comparison_error"))),
        run_sd_log=of.spread,
        smallest_detectable=detectable,
        error_rate=limit("comparison_error"),
        headline=f"{words}, against {of.baseline} runs; {_seen(decision, detectable)}.",
    )


def _slower(of: _Difference) -> str:
    return f"Slower than the baseline by {100.0 * math.expm1(of.difference):.1f} %"


def _undecided(of: _Difference, alpha: float) -> str:
    within = "is within what runs differ by" if of.low(alpha) <= 0.0 else "does not decide"
    return f"{_signed(of.difference)} {within}"


def _not_slower(of: _Difference) -> str:
    if of.high < 0.0:
        return f"Faster than the baseline by at least {100.0 * -math.expm1(of.high):.1f} %"
    return f"Not slower than the baseline by more than {100.0 * math.expm1(of.high):.1f} %"


def _mean_words(mean: _Difference | None) -> str:
    return "" if mean is None else f" (the mean step {_signed(mean.difference)}, by long steps)"


def _mean_at_most(usual: _Difference, mean: _Difference | None) -> str:
    if mean is None or mean.high <= usual.high:
        return ""
    return f" (the mean step by {_signed(mean.high)} at most)"


def _seen(decision: str, detectable: float) -> str:
    """Say what could be seen; of what was decided, that smaller changes are seen less often."""
    if decision == "INCONCLUSIVE":
        return f"less than {100.0 * detectable:.1f} % could not have been seen"
    seen = f"a slowdown of {100.0 * detectable:.1f} % would fail 8 times in 10"
    if decision == "PASS":
        return seen
    straying = 100.0 * limit("history_error_straying")
    return f"{seen}, and where single runs stray up to {straying:.0f} of 100 runs of the same code"


def _signed(log: float) -> str:
    return f"{100.0 * math.expm1(log):+.1f} %"
