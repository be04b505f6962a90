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
            practice, or how much the level wanders within these runs, or what waiting for a core made
            of a step, whichever is most.
        waiting: Share of the time that training waited for a core, if `assumed` comes from that.
        step_ms: Step time that shares refer to.
        basis: Where the noise comes from.
    """

    model: NoiseModel | None
    assumed: float
    step_ms: float
    basis: ErrorBasis
    waiting: float | None = None

    def of_log(self, name: str, mean_ms: float) -> Spread | None:
        """Give the spread of the logarithm of a metric of that size."""
        if self.model is not None and name == "step_time":
            return Spread(self.model.run_sd_log, self.model.runs - 1.0, holds_steps=True)
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
        share = None if self.model is None else self.model.metric_sd_share.get(name)
        if self.model is not None and share is not None:
            return Spread(share * self.step_ms, self.model.runs - 1.0, holds_steps=True)
        sd = self.assumed if self.model is None else max(self.assumed, self.model.run_sd_log)
        in_ms = sd * math.sqrt(max(0.0, mean_ms) * self.step_ms)
        return Spread(in_ms, math.inf, holds_steps=False)


def run_noise(
    a: Sequence[ComparedRun], b: Sequence[ComparedRun], model: NoiseModel | None
) -> RunNoise:
    """Give the noise to reckon with between two sides whose step times are known."""
    steps = [run.metrics["step_time"] for run in (*a, *b)]
    means = [side.mean_ms or 0.0 for side in steps]
    calm = max(limit("assumed_run_noise"), *(wander(side) for side in steps))
    waiting = max(_waiting(run) for run in (*a, *b))
    # What others take of the machine differs from run to run, and what it does to a step as well.
    longer = [-math.log(1.0 - _waiting(run)) for run in (*a, *b)]
    contended = max((max(longer) - min(longer)) / 2.0, limit("waiting_noise") * max(longer))
    return RunNoise(
        model=model,
        assumed=max(calm, contended),
        step_ms=math.fsum(means) / len(means),
        basis=basis_of(len(a), len(b), model is not None),
        waiting=waiting if contended > calm else None,
    )


def _waiting(run: ComparedRun) -> float:
    """Give the share of the time that the training thread was ready and had no core; 0 if unknown."""
    share = run.process.get("run_queue_share") or 0.0
    return min(max(share, 0.0), 0.99) if math.isfinite(share) else 0.0
