"""The gate against history: new runs of one change against stored runs of the baseline."""

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
        low, high: One-sided bounds; FAIL needs low > 1, PASS needs high < 1 + margin.
        predicted_high: A new run of the same code exceeds this ratio once in a hundred times.
        run_sd_log: How much the baseline's runs differ; 0.01 is 1 %.
        smallest_detectable: The least slowdown that would be found 8 times in 10; a share.
        error_rate: Chance of a false FAIL.
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
    new: Sequence[float], baseline: Sequence[float], rule: GateRule | None = None
) -> HistoryDecision:
    """Judge new runs by Student's t prediction interval of the baseline's.

    Args:
        new: Mean ln(step time) of each new run.
        baseline: The same of at least ten runs of the baseline, on the same machine.
        rule: What counts; None takes the thresholds'.

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
    spread, freedom = statistics.stdev(baseline), len(baseline) - 1
    error = spread * math.sqrt(1.0 / len(new) + 1.0 / len(baseline))
    difference = statistics.fmean(new) - statistics.fmean(baseline)
    alarm = critical(limit("comparison_error"), freedom)
    power = critical(1.0 - limit("detection_power"), freedom)
    high = difference + critical(limit("equivalence_error"), freedom) * error
    detectable = max(math.expm1((alarm + power) * error), rule.minimum_effect)
    decision: Literal["FAIL", "PASS", "INCONCLUSIVE"] = "INCONCLUSIVE"
    if difference > max(alarm * error, math.log1p(rule.minimum_effect)):
        decision = "FAIL"
    elif high < math.log1p(rule.margin):
        decision = "PASS"
    return HistoryDecision(
        decision=decision,
        new_runs=len(new),
        baseline_runs=len(baseline),
        ratio=math.exp(difference),
        low=math.exp(difference - alarm * error),
        high=math.exp(high),
        predicted_high=math.exp(alarm * error),
        run_sd_log=spread,
        smallest_detectable=detectable,
        error_rate=limit("comparison_error"),
        headline=_headline(decision, difference, high, detectable, len(baseline)),
    )


def _headline(decision: str, difference: float, high: float, detectable: float, runs: int) -> str:
    words = {
        "FAIL": f"Slower than the baseline by {100.0 * math.expm1(difference):.1f} %",
        "PASS": f"Not slower than the baseline by more than {100.0 * max(0.0, math.expm1(high)):.1f} %",
        "INCONCLUSIVE": f"{100.0 * math.expm1(difference):+.1f} % is within what runs differ by",
    }
    return (
        f"{words[decision]}, against {runs} runs; "
        f"less than {100.0 * detectable:.1f} % could not have been seen."
    )
