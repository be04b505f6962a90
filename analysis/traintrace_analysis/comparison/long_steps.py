"""Long steps: where the mean step changes otherwise than the usual one.

The usual step is told with outliers pulled in, so that a few long steps, there by chance, decide nothing.
A stall in each tenth step is no chance and costs as much; only the mean holds it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traintrace_analysis.comparison.estimates import Estimate
from traintrace_analysis.comparison.metric_table import Contrast, ratio_of_means
from traintrace_analysis.comparison.model import ComparedRun, Judgement
from traintrace_analysis.comparison.run_noise import RunNoise
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds


@dataclass(frozen=True, slots=True)
class LongSteps:
    """The change of the mean step, which holds the long ones.

    Attributes:
        estimate: Of the logarithm of the mean of B over that of A.
        difference_ms: Mean of B minus mean of A.
        known: Whether the runs show how much such a mean varies by chance.
        apart: Whether it changes otherwise than the usual step.
    """

    estimate: Estimate
    difference_ms: float
    known: bool
    apart: bool

    @property
    def judged(self) -> Judgement:
        """Say whether the mean has changed beyond chance."""
        low, high = self.estimate.interval(limit("long_steps_error"))
        if self.known and low > 0.0:
            return "regressed"
        if self.known and high < 0.0:
            return "improved"
        return "open"

    @property
    def least(self) -> float:
        """Give the change that is exceeded but for a small chance, as a logarithm."""
        return self.estimate.interval(limit("long_steps_error"))[0]

    @property
    def most(self) -> float:
        """Give what is exceeded but for one chance in twenty, as a logarithm.

        It is the change itself where the runs do not show how much such a mean varies.
        """
        return self.estimate.value + (self._reach if self.known else 0.0)

    def may_differ(self, bound: float) -> bool:
        """Tell whether a change of more than `bound`, in either direction, cannot be excluded."""
        return abs(self.estimate.value) + (self._reach if self.known else 0.0) > bound

    @property
    def _reach(self) -> float:
        return critical(limit("equivalence_error"), self.estimate.freedom) * self.estimate.error

    @property
    def told(self) -> str:
        """Say how the mean changes."""
        way = "longer" if self.difference_ms > 0.0 else "shorter"
        return (
            f"the mean step takes {milliseconds(abs(self.difference_ms))} {way} "
            f"({signed_percent(self.estimate.value)})"
        )


def long_steps(step: Contrast, runs: Sequence[ComparedRun], noise: RunNoise) -> LongSteps | None:
    """Give the change of the mean step; None where it has none that can be told."""
    mean = ratio_of_means(step)
    if step.log is None or mean is None or step.mean is None:
        return None
    apart = abs(mean.value - step.log.value) > limit("tail_disagreement")
    fewest = min(len(run.metrics["step_time"].block_means) for run in runs)
    known = noise.basis == "runs" or fewest >= limit("long_steps_blocks")
    return LongSteps(mean, step.mean.value, known, apart)


def signed_percent(log: float) -> str:
    """Give the logarithm of a ratio as a change in percent."""
    return f"{100.0 * math.expm1(min(log, 700.0)):+.1f} %"
