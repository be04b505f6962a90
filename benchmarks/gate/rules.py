"""The gates under test, and the rules that people use instead, for many trials at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.gate.noise import STEPS, Floats, RunLogs, StepPart
from traintrace_analysis.comparison.sequential import (
    LOOKS,
    alpha_of,
    default_rule,
    estimate,
    interleaved,
    judge_both,
)
from traintrace_analysis.comparison.student import critical

RUNS: Final = 2 * LOOKS[-1]
A_FIRST: Final = interleaved(LOOKS[-1])
Marks: TypeAlias = npt.NDArray[np.bool_]
_Look: TypeAlias = Callable[[int], tuple[Marks, Marks]]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What a gate said, by trial: the share of FAIL and PASS, and after how many pairs."""

    fails: Marks
    passes: Marks
    pairs: npt.NDArray[np.int64]

    def fail_rate(self, within: int = LOOKS[-1]) -> float:
        """Give the share of trials that fail within so many pairs."""
        return float((self.fails & (self.pairs <= within)).mean())

    @property
    def pass_rate(self) -> float:
        """Share of trials that pass."""
        return float(self.passes.mean())

    @property
    def open_rate(self) -> float:
        """Share of trials that all pairs do not decide."""
        return float((~self.fails & ~self.passes).mean())


def is_b() -> Marks:
    """Tell by run, in the order of starts, whether it is one of B."""
    first = np.asarray(A_FIRST)
    return np.stack([~first, first], axis=1).ravel()


def pair_gate(runs: RunLogs) -> Outcomes:
    """Run the gate of interleaved pairs, as `guard pairs` does: the usual step and the mean, all looks."""
    a, b = runs.columns(~is_b()), runs.columns(is_b())
    rule = default_rule()

    def look(pairs: int) -> tuple[Marks, Marks]:
        usual = estimate(a.usual, b.usual, A_FIRST, pairs)
        mean = estimate(a.mean, b.mean, A_FIRST, pairs)
        said = judge_both(usual, mean, pairs, rule)
        return said.fails | said.mean_fails, said.passes

    return _sequential(len(runs.usual), look)


def difference_gate(levels: Floats) -> Outcomes:
    """Judge the usual step by Student's t on the differences of pairs, with its k - 1 degrees of freedom."""
    a, b = levels[:, ~is_b()], levels[:, is_b()]
    rule = default_rule()

    def look(pairs: int) -> tuple[Marks, Marks]:
        gained = b[:, :pairs] - a[:, :pairs]
        mean, error = gained.mean(axis=1), gained.std(axis=1, ddof=1) / np.sqrt(pairs)
        fails = mean - critical(alpha_of(pairs), pairs - 1) * error > 0.0
        fails &= mean > np.log1p(rule.minimum_effect)
        high = mean + critical(0.05, pairs - 1) * error
        return fails, ~fails & (high < np.log1p(rule.margin))

    return _sequential(len(levels), look)


def means_differ(levels: Floats, steps: StepPart) -> float:
    """Give how often two means of one run a side differ by more than 3 %, either way."""
    gained = (levels + steps.log_of_mean)[:, :2]
    return float((np.abs(gained[:, 1] - gained[:, 0]) > np.log(1.03)).mean())


def steps_differ(levels: Floats, steps: StepPart) -> float:
    """Give how often Welch's t on the steps of one run a side has p < 1 %, as if steps were runs."""
    gained = levels[:, 1] - levels[:, 0] + steps.log_mean[:, 1] - steps.log_mean[:, 0]
    error = np.sqrt((steps.log_sd[:, 0] ** 2 + steps.log_sd[:, 1] ** 2) / STEPS)
    return float((np.abs(gained) > critical(0.005, 2.0 * STEPS - 2.0) * error).mean())


def one_after_the_other(levels: Floats) -> float:
    """Give how often six runs of A and then six of B differ by Welch's t, p < 1 % for slower."""
    a, b = levels[:, :6], levels[:, 6:12]
    error = np.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / 6.0)
    return float(((b.mean(axis=1) - a.mean(axis=1)) > critical(0.01, 10.0) * error).mean())


def _sequential(trials: int, look: _Look) -> Outcomes:
    fails, passes = np.zeros(trials, dtype=bool), np.zeros(trials, dtype=bool)
    pairs = np.full(trials, LOOKS[-1])
    for count in LOOKS:
        failing, passing = look(count)
        still = ~(fails | passes)
        pairs[still & (failing | passing)] = count
        fails |= still & failing
        passes |= still & passing
    return Outcomes(fails, passes, pairs)
