"""The benchmark of the gates: it decides as the gates do, and a small run of it meets the targets."""

import math

import numpy as np
import pytest

from benchmarks.gate.noise import STEP_NOISE, Runs, draw_levels, draw_steps, winsorise_rows
from benchmarks.gate.rules import A_FIRST, RUNS, is_b, pair_gate
from benchmarks.gate.table import write_table
from benchmarks.gate.trials import play
from traintrace_analysis.comparison.sequential import Pair, decide
from traintrace_analysis.statistics import winsorise


def test_rows_are_winsorised_as_one_series_is() -> None:
    logs = np.random.default_rng(0).standard_t(2, (20, 101)).astype(np.float32)
    for row, pulled in zip(logs, winsorise_rows(logs), strict=True):
        assert pulled == pytest.approx(winsorise(row.astype(np.float64)), abs=1e-4)


def test_many_gates_at_once_decide_as_one_does() -> None:
    rng = np.random.default_rng(1)
    levels = draw_levels(Runs("normal", 0.03), 60, RUNS, rng) + 0.04 * is_b()
    levels[20:40] -= 0.04 * is_b()
    outcomes = pair_gate(levels)
    seen = set()
    for trial, row in enumerate(levels):
        pairs = [
            Pair(*((row[2 * k], row[2 * k + 1]) if first else (row[2 * k + 1], row[2 * k])), first)
            for k, first in enumerate(A_FIRST)
        ]
        one = decide(pairs)
        assert (one.decision == "FAIL") == outcomes.fails[trial]
        assert (one.decision == "PASS") == outcomes.passes[trial]
        assert one.pairs == outcomes.pairs[trial]
        seen.add(one.decision)
    assert seen == {"FAIL", "PASS", "INCONCLUSIVE"}


def test_the_simulated_steps_have_the_memory_they_are_given() -> None:
    rng = np.random.default_rng(2)
    for noise, tau in ((STEP_NOISE[0], 1.0), (STEP_NOISE[1], 3.0), (STEP_NOISE[2], 19.0)):
        part = draw_steps(noise, 300, 2, rng)
        assert part.log_mean.std() == pytest.approx(0.05 * math.sqrt(tau / 500.0), rel=0.15)


def test_a_small_run_meets_the_targets_but_for_chance() -> None:
    trials = 300
    score = play(trials)
    figures = score.figures()
    for one in score.same:
        assert one.fails * trials <= 0.01 * trials + 3.0 * math.sqrt(0.01 * trials) + 1.0
    assert figures["power_5pct_at_1pct_noise"] >= 0.95
    assert figures["power_10pct_at_3pct_noise"] >= 0.99
    assert figures["pairs_median"] <= 7
    # What people use instead is wrong far more often, on the same runs.
    assert figures["naive_means_differ_3pct_max"] > 0.3
    assert figures["naive_welch_on_steps_max"] > 0.5
    table = write_table(score)
    assert f"{trials} trials" in table
    assert all(name in table for name in figures if name != "trials")
