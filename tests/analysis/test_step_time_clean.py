"""Noisy runs in which nothing is wrong."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.labs.runs import Value, make_rank, make_run
from tests.labs.steps import named, noisy
from traintrace_analysis import analyse

MOMENTS = {"JITTER", "DRIFT", "WARMUP_COST", "BACKWARD_HEAVY", "OPTIMIZER_HEAVY"}


def false_alarms(seeds: int, counts: Sequence[int]) -> tuple[int, int]:
    runs = alarms = 0
    for count in counts:
        for phi in (0.0, 0.5, 0.9):
            for cv in (0.05, 0.2):
                for seed in range(seeds):
                    rng = np.random.default_rng([seed, count, int(10 * phi), int(100 * cv)])
                    ms: dict[str, Value] = {
                        "input_wait": 0.3, "optimizer": 4.0, "other": 1.0,
                        "forward": noisy(count, phi, cv, rng, 0.005),
                        "backward": noisy(count, phi, cv, rng, 0.005),
                    }  # fmt: skip
                    runs += 1
                    alarms += bool(named(analyse(make_run(make_rank(count, ms=ms)))) & MOMENTS)
    return alarms, runs


def test_noise_with_memory_and_spikes_is_no_finding() -> None:
    alarms, runs = false_alarms(6, (40, 100, 400))
    assert alarms <= 1, f"{alarms} of {runs}"


@pytest.mark.long
def test_in_ten_of_a_thousand_noisy_runs_at_most_something_is_found() -> None:
    alarms, runs = false_alarms(40, (40, 60, 100, 250, 1_000))
    assert alarms <= 0.01 * runs, f"{alarms} of {runs}"
