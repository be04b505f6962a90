"""The benchmark of the gates: it decides as the gates do, and a small run of it meets the targets."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gate.noise import (
    STEP_NOISE,
    USUAL_STEPS,
    RunLogs,
    Runs,
    draw_levels,
    draw_steps,
    winsorise_rows,
)
from benchmarks.gate.rules import A_FIRST, RUNS, is_b, pair_gate
from benchmarks.gate.table import write_table
from benchmarks.gate.trials import play
from traintrace_analysis.comparison.sequential import Pair, decide
from traintrace_analysis.metrics import describe
from traintrace_analysis.statistics import winsorise


def test_rows_are_winsorised_as_one_series_is() -> None:
    logs = np.random.default_rng(0).standard_t(2, (20, 101)).astype(np.float32)
    for row, pulled in zip(logs, winsorise_rows(logs), strict=True):
        assert pulled == pytest.approx(winsorise(row.astype(np.float64)), abs=1e-4)


def test_many_gates_at_once_decide_as_one_does() -> None:
    """Both by the usual step and by the mean: also what the mean alone fails, and what it alone keeps from passing."""
    rng = np.random.default_rng(1)
    usual = draw_levels(Runs("normal", 0.02), 120, RUNS, rng) + 0.04 * is_b()
    usual[40:] -= 0.04 * is_b()
    mean = usual + 0.02 * rng.standard_normal(usual.shape)
    mean[80:] += 0.08 * is_b()
    outcomes = pair_gate(RunLogs(usual, mean))
    seen = set()
    for trial, (row, means) in enumerate(zip(usual.tolist(), mean.tolist(), strict=True)):
        pairs = [_pair(row[2 * k : 2 * k + 2], means[2 * k : 2 * k + 2], first) for k, first in enumerate(A_FIRST)]  # fmt: skip
        one = decide(pairs)
        assert (one.decision == "FAIL") == outcomes.fails[trial]
        assert (one.decision == "PASS") == outcomes.passes[trial]
        assert one.pairs == outcomes.pairs[trial]
        seen.add((one.decision, "mean step" in one.headline))
    assert seen >= {("FAIL", False), ("FAIL", True), ("PASS", False), ("INCONCLUSIVE", True)}


def _pair(usual: list[float], means: list[float], a_first: bool) -> Pair:
    a, b = (0, 1) if a_first else (1, 0)
    return Pair(usual[a], usual[b], a_first, means[a], means[b])


def test_the_simulated_steps_have_the_memory_they_are_given() -> None:
    rng = np.random.default_rng(2)
    for noise, tau in ((STEP_NOISE[0], 1.0), (STEP_NOISE[1], 3.0), (STEP_NOISE[2], 19.0)):
        part = draw_steps(noise, 300, 2, rng)
        assert part.log_mean.std() == pytest.approx(0.05 * math.sqrt(tau / 500.0), rel=0.15)


def test_the_simulated_numbers_are_those_of_a_summary() -> None:
    rng = np.random.default_rng(3)
    part = draw_steps(replace(USUAL_STEPS, spikes=0.0, stall=2.0), 50, 2, rng)
    # A stall of two steps in each 20th costs a tenth; of it the usual step holds what its limit lets through.
    assert math.exp(part.log_of_mean.mean()) == pytest.approx(1.1, abs=0.005)
    assert 0.005 < part.log_mean.mean() < 0.02
    run = np.exp(0.05 * rng.standard_normal(500))
    described = describe(0, run)
    assert described.log_mean == pytest.approx(
        float(winsorise_rows(np.log(run[None]).astype(np.float32)).mean()), abs=1e-6
    )


def test_a_small_run_meets_the_targets_but_for_chance() -> None:
    trials = 150
    score = play(trials)
    figures = score.figures()
    for one in score.same:
        assert one.fails * trials <= 0.01 * trials + 3.0 * math.sqrt(0.01 * trials) + 1.0
    assert figures["power_5pct_at_1pct_noise"] >= 0.95
    assert figures["power_10pct_at_3pct_noise"] >= 0.99
    assert figures["pairs_median"] <= 7
    for stall in score.stalled:
        assert stall.passes * trials <= 0.05 * trials + 3.0 * math.sqrt(0.05 * trials)
        assert stall.cost < 0.4 or stall.gate != "pairs" or stall.found > 0.95
        calm = stall.steps == USUAL_STEPS.name and stall.sd <= 0.01
        assert not (calm and stall.cost >= 0.1 and stall.passes)
    # What people use instead is wrong far more often, on the same runs.
    assert figures["naive_means_differ_3pct_max"] > 0.3
    assert figures["naive_welch_on_steps_max"] > 0.5
    table = write_table(score)
    assert f"{trials} trials" in table
    assert all(name in table for name in figures if name != "trials")
