"""The gate against history: ten runs of the baseline, one or three new ones."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.gate.noise import (
    STEP_NOISE,
    USUAL_STEPS,
    RunLogs,
    Runs,
    Steps,
    draw_levels,
    draw_steps,
    run_noise,
)
from traintrace_analysis.comparison.history import judge_history

BASELINE: Final = 10
MOST_NEW: Final = 3
_SD: Final = 0.01


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """What the gate says; shares of trials.

    Attributes:
        new: How many new runs it judges.
        false_fail, passes: Of the same code. found: FAIL of code that is 5 % slower.
    """

    steps: str
    runs: Runs
    new: int
    false_fail: float
    passes: float
    found: float

    @property
    def is_usual(self) -> bool:
        """Tell whether this is the noise of the figures that have names of their own."""
        return (self.steps, self.runs.name) == (USUAL_STEPS.name, "normal")


def play_history(trials: int, rng: np.random.Generator) -> tuple[HistoryRow, ...]:
    """Judge the same code and slower code, at 1 % noise between runs."""
    rows: list[HistoryRow] = []
    runs = BASELINE + MOST_NEW
    normal, *_, heavy, skewed = run_noise(_SD)
    for noise in STEP_NOISE:
        steps = draw_steps(noise, trials, runs, rng)
        for kind in (normal, heavy, skewed) if noise == USUAL_STEPS else (normal,):
            logs = steps.of(draw_levels(kind, trials, runs, rng))
            rows += [_row(noise, kind, new, logs) for new in (1, MOST_NEW)]
    return tuple(rows)


def history_shares(runs: RunLogs, new: int) -> tuple[float, float]:
    """Give the shares of FAIL and of PASS; runs: trials by the baseline's, then the new ones."""
    end = BASELINE + new
    made = [
        judge_history(
            usual[BASELINE:end], usual[:BASELINE], means=(mean[BASELINE:end], mean[:BASELINE])
        ).decision
        for usual, mean in zip(runs.usual.tolist(), runs.mean.tolist(), strict=True)
    ]
    return made.count("FAIL") / len(made), made.count("PASS") / len(made)


def _row(noise: Steps, kind: Runs, new: int, even: RunLogs) -> HistoryRow:
    is_new = np.arange(even.usual.shape[1]) >= BASELINE
    fails, passes = history_shares(even, new)
    found, _ = history_shares(even.slowed(np.log1p(0.05) * is_new), new)
    return HistoryRow(noise.name, kind, new, fails, passes, found)
