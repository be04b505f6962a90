"""Several runs in their order: does a step get slower from run to run?

A straight line through ln(step time) against the number of the run. It holds if runs differ by chance
alone, independently; a machine that warms up over a night is a trend as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit

# With fewer the line has one degree of freedom, and its interval spans everything.
FEWEST_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class RunTrend:
    """How the step time goes from run to run.

    Attributes:
        runs: How many runs it rests on.
        state: "slower" and "faster" are beyond chance; "none" is not; "too_few" is under four runs.
        per_run: Change from one run to the next, as a share; None if there are too few.
        low, high: Its interval, None as for that.
        first_to_last: Change from the first to the last run as the line has it; None as for that.
        told: All of it in one sentence.
    """

    runs: int
    state: Literal["slower", "faster", "none", "too_few"]
    per_run: float | None
    low: float | None
    high: float | None
    first_to_last: float | None
    told: str


def run_trend(means_ms: Sequence[float]) -> RunTrend:
    """Judge the mean step times of comparable runs, in the order in which they were started.

    Args:
        means_ms: Mean milliseconds per step, each positive.

    Raises:
        ValueError: A mean is not positive or not finite.
    """
    if not all(math.isfinite(mean) and mean > 0.0 for mean in means_ms):
        raise ValueError("means_ms: every mean must be a positive number of milliseconds")
    count = len(means_ms)
    if count < FEWEST_RUNS:
        told = f"No trend: {count} comparable runs, {FEWEST_RUNS} are needed."
        return RunTrend(count, "too_few", None, None, None, None, told)
    times = [index - (count - 1) / 2.0 for index in range(count)]
    levels = [math.log(mean) for mean in means_ms]
    middle = math.fsum(levels) / count
    spread = math.fsum(time * time for time in times)
    slope = math.fsum(t * (level - middle) for t, level in zip(times, levels, strict=True)) / spread
    rest = math.fsum((v - middle - slope * t) ** 2 for t, v in zip(times, levels, strict=True))
    error = math.sqrt(rest / (count - 2) / spread)
    chance = limit("comparison_error")
    reach = critical(chance / 2.0, count - 2) * error
    per_run, low, high = (math.expm1(value) for value in (slope, slope - reach, slope + reach))
    whole = math.expm1(slope * (count - 1))
    interval = f"{100 * (1 - chance):.0f} % interval {100 * low:+.2f} to {100 * high:+.2f} %"
    line = f"{100 * per_run:+.2f} % a run over {count} runs ({interval})"
    # A millionth is below what any clock here resolves, and rounding makes a line out of equal runs.
    if slope - reach > 1e-6:
        return RunTrend(count, "slower", per_run, low, high, whole, f"Steps get slower: {line}.")
    if slope + reach < -1e-6:
        return RunTrend(count, "faster", per_run, low, high, whole, f"Steps get faster: {line}.")
    return RunTrend(count, "none", per_run, low, high, whole, f"No trend beyond chance: {line}.")
