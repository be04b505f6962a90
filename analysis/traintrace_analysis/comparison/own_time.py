"""The gate of pairs on a busy machine: the step time apart from the time that training waited for a CPU.

Where other programs take the CPUs, runs of the same code differ by half of their time, and no number of
pairs would tell a slowdown of a tenth. The kernel counts how long the training thread stood ready and had no
CPU. How much of that wait makes steps longer is fitted to the runs themselves, since behind a device or a slow
loader it costs nothing; what is left of the noise is a few percent (measured, 15 programs on 2 cores: 50 % became 3).

So a slowdown that shows apart from that wait fails. It never passes: a change that makes training wait for a
CPU, by threads of its own, would not show. On a machine at rest nothing is asked.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.comparison.gate_answers import (
    GateRule,
    PairsDecision,
    alpha_of,
    default_rule,
)
from traintrace_analysis.comparison.sequential import interleaved
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class OwnRun:
    """One run.

    Attributes:
        step_ms: Mean step time.
        phases_ms: Of which, by account inside steps.
        waited: Share of the time that the training thread waited for a CPU; None if nobody read it.
    """

    step_ms: float
    phases_ms: Mapping[str, float]
    waited: float | None

    @property
    def left(self) -> float:
        """Share of the time that was not such a wait."""
        return 1.0 - (self.waited or 0.0)


@dataclass(frozen=True, slots=True)
class OwnTime:
    """A step of B over one of A, apart from waits for a CPU, and the interval of that ratio (99 %)."""

    ratio: float
    low: float
    high: float


def is_busy(runs: Sequence[OwnRun]) -> bool:
    """Tell whether all runs say how long they waited for a CPU, and one of them waited long."""
    waited = [run.waited for run in runs if run.waited is not None]
    whole = len(waited) == len(runs) and all(share < 1.0 for share in waited)
    return whole and max(waited, default=0.0) >= limit("run_queue_share_warning")


def own_time(runs: Sequence[OwnRun]) -> OwnTime | None:
    """Compare the sides; None before three pairs, and where the machine was at rest.

    Args:
        runs: In the order of starts: A B, B A, A B, ...
    """
    if len(runs) < 6 or not is_busy(runs):
        return None
    fit = _apart_from_waits(runs)
    reach = critical(limit("comparison_error") / 2.0, fit.freedom) * fit.error
    low, high = fit.value - reach, fit.value + reach
    return OwnTime(math.exp(fit.value), _exp(low), _exp(high))


def own_time_fails(runs: Sequence[OwnRun], rule: GateRule | None = None) -> PairsDecision | None:
    """Fail at a look if a step of B takes longer without waits for a CPU; None if that is not beyond chance.

    Args:
        runs: In the order of starts: A B, B A, A B, ...
        rule: What counts; None takes the thresholds'.
    """
    if not is_busy(runs):
        return None
    rule, look = rule or default_rule(), len(runs) // 2
    fit = _apart_from_waits(runs)
    value, error, freedom = fit.value, fit.error, fit.freedom
    alpha = alpha_of(look) * limit("own_time_error") / limit("comparison_error")
    low = value - critical(alpha, freedom) * error
    if low <= 0.0 or value <= math.log1p(rule.minimum_effect):
        return None
    power = critical(1.0 - limit("detection_power"), freedom)
    detectable = _exp((critical(alpha, freedom) + power) * error) - 1.0
    waited = sorted(run.waited or 0.0 for run in runs)[len(runs) // 2]
    return PairsDecision(
        decision="FAIL",
        pairs=look,
        next_look=None,
        ratio=math.exp(value),
        low=math.exp(low),
        high=_exp(value + critical(limit("equivalence_error"), freedom) * error),
        smallest_detectable=max(detectable, rule.minimum_effect),
        error_rate=limit("comparison_error") + limit("own_time_error"),
        headline=f"A step of B takes {100.0 * math.expm1(value):.2g} % longer than one of A apart from waiting for "
        f"a CPU, which takes {100.0 * waited:.0f} % of the time here, after {look} pairs.",
    )


def own_phase(runs: Sequence[OwnRun]) -> str | None:
    """Name the account that lost most without waits for a CPU, beyond chance; None if none stands out."""
    names = set.intersection(*({*run.phases_ms} for run in runs))
    lost: dict[str, float] = {}
    for name in names:
        fit = _fit([run.phases_ms[name] * run.left for run in runs])
        if fit.value > critical(limit("comparison_error") / len(names), fit.freedom) * fit.error:
            lost[name] = fit.value
    return max(lost, key=lambda name: (lost[name], name), default=None)


@dataclass(frozen=True, slots=True)
class _Fit:
    """B minus A, its standard error, and the degrees of freedom of that."""

    value: float
    error: float
    freedom: int


def _apart_from_waits(runs: Sequence[OwnRun]) -> _Fit:
    waits = [-math.log(run.left) for run in runs]
    return _fit([math.log(run.step_ms) for run in runs], waits)


def _fit(levels: Sequence[float], beside: Sequence[float] = ()) -> _Fit:
    """Fit a level, a side, a straight line in time, and what was measured beside, to runs in their order."""
    order = np.arange(len(levels))
    a_first = np.repeat(interleaved(len(levels) // 2), 2)
    side = np.where((order % 2 == 0) == a_first, -0.5, 0.5)
    columns = [np.ones(len(levels)), side, order - order.mean()]
    if len(beside):
        columns.append(np.asarray(beside) - np.mean(beside))
    design = np.stack(columns, axis=1)
    freedom = len(levels) - len(columns)
    if np.linalg.matrix_rank(design) < len(columns):
        return _Fit(0.0, math.inf, freedom)  # what was measured beside cannot be told from the side
    fitted, *_ = np.linalg.lstsq(design, np.asarray(levels), rcond=None)
    variance = float(((np.asarray(levels) - design @ fitted) ** 2).sum()) / freedom
    unit = float(np.linalg.inv(design.T @ design)[1, 1])
    return _Fit(float(fitted[1]), math.sqrt(variance * unit), freedom)


def _exp(log: float) -> float:
    return math.exp(min(max(log, -700.0), 700.0))
