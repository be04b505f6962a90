"""Code that stalls in each 20th step: the usual step hides it, and no gate may pass it."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.gate.history import BASELINE, MOST_NEW, history_shares
from benchmarks.gate.noise import (
    STALL_EVERY,
    Runs,
    StepPart,
    Steps,
    draw_levels,
    draw_steps,
)
from benchmarks.gate.rules import RUNS, Marks, is_b, pair_gate

STALLS: Final = (1.0, 2.0, 10.0)
_HISTORY_SD: Final = 0.01


@dataclass(frozen=True, slots=True)
class Stalled:
    """What a gate says of it.

    Attributes:
        gate: "pairs", or "history" with the number of new runs.
        stall: How long, in usual steps.
        sd: Noise between runs.
        found, passes, undecided: Shares of trials.
    """

    gate: str
    stall: float
    steps: str
    sd: float
    found: float
    passes: float
    undecided: float

    @property
    def cost(self) -> float:
        """Share of the mean step that the stalls add."""
        return self.stall / STALL_EVERY


def stalled_pairs(
    noise: Steps, even: StepPart, sds: tuple[float, ...], rng: np.random.Generator
) -> list[Stalled]:
    """Let B stall and A not."""
    rows: list[Stalled] = []
    for stall in STALLS:
        steps = _stalling(noise, even, is_b(), stall, rng)
        for sd in sds:
            said = pair_gate(steps.of(draw_levels(Runs("normal", sd), len(even.log_sd), RUNS, rng)))
            shares = said.fail_rate(), said.pass_rate, said.open_rate
            rows.append(Stalled("pairs", stall, noise.name, sd, *shares))
    return rows


def stalled_history(noise: Steps, trials: int, rng: np.random.Generator) -> list[Stalled]:
    """Let new runs stall and those of the baseline not."""
    runs = BASELINE + MOST_NEW
    even = draw_steps(noise, trials, runs, rng)
    rows: list[Stalled] = []
    for stall in STALLS:
        steps = _stalling(noise, even, np.arange(runs) >= BASELINE, stall, rng)
        levels = draw_levels(Runs("normal", _HISTORY_SD), trials, runs, rng)
        for new in (1, MOST_NEW):
            fails, passes = history_shares(steps.of(levels), new)
            shares = fails, passes, 1.0 - fails - passes
            rows.append(Stalled(f"history, {new} new", stall, noise.name, _HISTORY_SD, *shares))
    return rows


def _stalling(
    noise: Steps, even: StepPart, where: Marks, stall: float, rng: np.random.Generator
) -> StepPart:
    """Draw the runs that stall anew."""
    trials = len(even.log_mean)
    other = draw_steps(replace(noise, stall=stall), trials, int(where.sum()), rng)
    return even.with_runs(where, other)
