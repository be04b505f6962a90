"""A stall in each 20th step: neither `guard pairs` nor `guard history` passes it, from summaries as they are written."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP, Value
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary
from traintrace_reporting.guard_history import judge
from traintrace_reporting.guarding import run_pairs

STEPS = 300
STEP_MS = 11.8


def trained(
    name: str, seed: int, stall_ms: float = 0.0, spikes: float = 0.0, longer: float = 5.0
) -> Input:
    """Make a run that differs from others by 0.5 %; a share of its steps takes `longer` steps more by chance."""
    rng = np.random.default_rng(seed)
    long = longer * STEP_MS * (rng.random(STEPS) < spikes)
    long[::20] += stall_ms
    level = float(np.exp(0.005 * rng.standard_normal()))
    ms: Mapping[str, Value] = {
        **{phase: value * level for phase, value in CPU_STEP.items()},  # type: ignore[operator]
        "input_wait": (0.5 + long).tolist(),
    }
    return Input(Path(name), Summary(make_summary(name, ms=ms, steps=STEPS)))


def decision(stall_ms: float, spikes: float, longer: float = 5.0) -> tuple[str, str]:
    seeds = iter(range(61, 90))

    def start(side: str, number: int) -> Input:
        of_b = stall_ms if side == "B" else 0.0
        return trained(f"{side}{number}", next(seeds), of_b, spikes, longer)

    outcome = run_pairs(start, 12, lambda _: None)
    return outcome.decision.decision, outcome.decision.headline


@pytest.mark.parametrize(("steps_long", "spikes"), [(1.0, 0.0), (2.0, 0.0), (2.0, 0.01)])
def test_pairs_fail_what_stalls(steps_long: float, spikes: float) -> None:
    decided, headline = decision(steps_long * STEP_MS, spikes)
    assert decided == "FAIL", headline
    assert "mean step" in headline


def test_the_same_code_passes_and_where_steps_are_often_long_it_is_said_why_not() -> None:
    assert decision(0.0, 0.0)[0] == "PASS"
    decided, headline = decision(0.0, 0.01, longer=30.0)
    assert decided == "INCONCLUSIVE"
    assert "the usual step would pass" in headline


@pytest.mark.parametrize("spikes", [0.0, 0.02])
def test_history_never_passes_what_stalls(spikes: float) -> None:
    baseline = [trained(f"base{seed}", 100 + seed, 0.0, spikes) for seed in range(10)]
    told = judge([trained("new", 7, 2.0 * STEP_MS, spikes)], baseline)
    assert told.decision == ("INCONCLUSIVE" if spikes else "FAIL"), told.headline
    if not spikes:
        assert judge([trained("same", 8)], baseline).decision == "PASS"
