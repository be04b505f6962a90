"""The gate against history: ten runs of the baseline, one or three new ones."""

from typing import TypeAlias

import numpy as np

from benchmarks.gate.noise import STEP_NOISE, Runs, draw_levels, draw_steps
from traintrace_analysis.comparison.history import judge_history

Figures: TypeAlias = dict[str, float]
_BASELINE = 10


def history_figures(trials: int, rng: np.random.Generator) -> Figures:
    """Give how often the gate fails on the same code, and on code that is 5 % slower, at 1 % noise."""
    steps = draw_steps(STEP_NOISE[1], trials, _BASELINE + 3, rng).log_mean
    levels = draw_levels(Runs("normal", 0.01), trials, _BASELINE + 3, rng) + steps
    figures: Figures = {}
    for label, effect in (("false_fail", 0.0), ("power_5pct", 0.05)):
        for new in (1, 3):
            fails = [
                judge_history(
                    (row[_BASELINE : _BASELINE + new] + np.log1p(effect)).tolist(),
                    row[:_BASELINE].tolist(),
                ).decision
                == "FAIL"
                for row in levels
            ]
            figures[f"history_{label}_{new}_new"] = float(np.mean(fails))
    return figures
