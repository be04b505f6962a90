"""The trials: the same code under every noise, and slower code where the gates must see it."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from benchmarks.gate.history import HistoryRow, play_history
from benchmarks.gate.noise import (
    STEP_NOISE,
    USUAL_STEPS,
    Floats,
    RunLogs,
    Runs,
    StepPart,
    draw_levels,
    draw_steps,
    run_noise,
)
from benchmarks.gate.rules import (
    RUNS,
    Outcomes,
    difference_gate,
    is_b,
    means_differ,
    one_after_the_other,
    pair_gate,
    steps_differ,
)
from benchmarks.gate.stalls import Stalled, stalled_history, stalled_pairs

RUN_SDS: Final = (0.005, 0.01, 0.03)
_SEED: Final = 20_261_130
PAIRS_FOR_POWER: Final = 7
STALLING_NOISE: Final = (USUAL_STEPS, STEP_NOISE[-1])

Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class SameCode:
    """How often a noise model is called slower though the code is the same; shares of trials."""

    runs: Runs
    steps: str
    fails: float
    passes: float
    undecided: float
    naive_means: float
    naive_steps: float
    naive_order: float


@dataclass(frozen=True, slots=True)
class Slower:
    """How often code that is slower by `effect` is found.

    Attributes:
        within_7: Found within seven pairs, so at the look after six. found: within twelve.
        passes: Passed, which is wrong from the margin on.
        pairs_median: Pairs until a decision.
        differences_within_7, differences_found: The same by the test on differences of pairs.
    """

    effect: float
    runs: Runs
    steps: str
    within_7: float
    found: float
    passes: float
    pairs_median: float
    differences_within_7: float
    differences_found: float


@dataclass(frozen=True, slots=True)
class Score:
    """All trials of one call."""

    trials: int
    same: tuple[SameCode, ...]
    slower: tuple[Slower, ...]
    stalled: tuple[Stalled, ...]
    history: tuple[HistoryRow, ...]

    def figures(self) -> Figures:
        """Give the figures that have a target, and the naive rules' beside them."""
        five = self._of(0.05, 0.01)
        ten = self._of(0.10, 0.03)
        return {
            "trials": float(self.trials),
            "false_fail_max": max(one.fails for one in self.same),
            "power_5pct_at_1pct_noise": five.within_7,
            "power_10pct_at_3pct_noise": ten.found,
            "pairs_median": five.pairs_median,
            "power_5pct_at_1pct_noise_worst_steps": min(
                one.within_7
                for one in self.slower
                if (one.effect, one.runs.sd, one.runs.name) == (0.05, 0.01, "normal")
            ),
            "differences_power_5pct_at_1pct_noise": five.differences_within_7,
            "stalled_pass_max": max(one.passes for one in self.stalled),
            "naive_means_differ_3pct_max": max(one.naive_means for one in self.same),
            "naive_welch_on_steps_max": max(one.naive_steps for one in self.same),
            "naive_a_then_b_max": max(one.naive_order for one in self.same),
            **{
                f"history_{name}_{one.new}_new": share
                for one in self.history
                if one.is_usual
                for name, share in (("false_fail", one.false_fail), ("power_5pct", one.found))
            },
            "history_false_fail_max": max(one.false_fail for one in self.history),
        }

    def _of(self, effect: float, sd: float) -> Slower:
        return next(
            one
            for one in self.slower
            if (one.effect, one.runs.sd, one.runs.name, one.steps)
            == (effect, sd, "normal", USUAL_STEPS.name)
        )


def play(trials: int) -> Score:
    """Run all trials."""
    rng = np.random.default_rng(_SEED)
    same: list[SameCode] = []
    slower: list[Slower] = []
    stalled: list[Stalled] = []
    for noise in STEP_NOISE:
        steps = draw_steps(noise, trials, RUNS, rng)
        usual = noise == USUAL_STEPS
        for sd in RUN_SDS:
            for runs in run_noise(sd) if usual else run_noise(sd)[:2]:
                levels = draw_levels(runs, trials, RUNS, rng)
                same.append(_same(runs, noise.name, levels, steps))
                effects = (0.03, 0.05, 0.10) if usual else (0.05,)
                slower += [
                    _slower(effect, runs, noise.name, steps.of(levels)) for effect in effects
                ]
        if noise in STALLING_NOISE:
            stalled += stalled_pairs(noise, steps, RUN_SDS, rng)
            stalled += stalled_history(noise, trials, rng)
    return Score(trials, tuple(same), tuple(slower), tuple(stalled), play_history(trials, rng))


def _same(runs: Runs, name: str, levels: Floats, steps: StepPart) -> SameCode:
    outcomes = pair_gate(steps.of(levels))
    return SameCode(
        runs=runs,
        steps=name,
        fails=outcomes.fail_rate(),
        passes=outcomes.pass_rate,
        undecided=outcomes.open_rate,
        naive_means=means_differ(levels, steps),
        naive_steps=steps_differ(levels, steps),
        naive_order=one_after_the_other(levels + steps.log_mean),
    )


def _slower(effect: float, runs: Runs, name: str, even: RunLogs) -> Slower:
    slowed = even.slowed(np.log1p(effect) * is_b())
    ours: Outcomes = pair_gate(slowed)
    other = difference_gate(slowed.usual)
    return Slower(
        effect=effect,
        runs=runs,
        steps=name,
        within_7=ours.fail_rate(PAIRS_FOR_POWER),
        found=ours.fail_rate(),
        passes=ours.pass_rate,
        pairs_median=float(np.median(ours.pairs)),
        differences_within_7=other.fail_rate(PAIRS_FOR_POWER),
        differences_found=other.fail_rate(),
    )
