"""How much runs of the same code differ, for the metric at hand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traintrace_analysis.comparison.estimates import Spread, basis_of, wander
from traintrace_analysis.comparison.model import ComparedRun, ErrorBasis, NoiseModel
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The noise between runs that a comparison reckons with.

    Attributes:
        model: As stored, None without one.
        assumed: Standard deviation of ln(step time) where nothing was measured: that of field
            practice, or how much the level wanders within these runs, if that is more.
        step_ms: Step time that shares refer to.
        basis: Where the noise comes from.
    """

    model: NoiseModel | None
    assumed: float
    step_ms: float
    basis: ErrorBasis

    def of_log(self, name: str, mean_ms: float) -> Spread | None:
        """Give the spread of the logarithm of a metric of that size."""
        spread = self.of_mean(name, mean_ms)
        if spread is None or not mean_ms > 0.0:
            return None
        return Spread(spread.sd / mean_ms, spread.freedom, spread.holds_steps)

    def of_mean(self, name: str, mean_ms: float) -> Spread | None:
        """Give the spread of a metric's mean in ms; None where the runs themselves must tell.

        What was not measured is taken as if the parts of a step varied independently and made up its
        noise together: the part's is that of the step times the root of its share. Parts that vary
        together vary less.
        """
        if self.model is None and self.basis == "runs":
            return None
        sd = self.model.run_sd_log if self.model is not None else self.assumed
        in_ms = sd * math.sqrt(max(0.0, mean_ms) * self.step_ms)
        if self.model is None:
            return Spread(in_ms, math.inf, holds_steps=False)
        share = self.model.metric_sd_share.get(name)
        if share is not None:
            in_ms = share * self.step_ms
        return Spread(in_ms, self.model.runs - 1.0, holds_steps=True)


def run_noise(
    a: Sequence[ComparedRun], b: Sequence[ComparedRun], model: NoiseModel | None
) -> RunNoise:
    """Give the noise to reckon with between two sides whose step times are known."""
    steps = [run.metrics["step_time"] for run in (*a, *b)]
    means = [side.mean_ms or 0.0 for side in steps]
    return RunNoise(
        model=model,
        assumed=max(limit("assumed_run_noise"), *(wander(side) for side in steps)),
        step_ms=math.fsum(means) / len(means),
        basis=basis_of(len(a), len(b), model is not None),
    )
