"""The gate against history, the calibration of a machine's noise, and Student's t."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.labs.compared import side
from traintrace_analysis.comparison.calibration import calibrate
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.history import judge_history
from traintrace_analysis.comparison.student import critical, upper_tail


def levels(count: int, sd: float, slower: float = 0.0, seed: int = 0) -> list[float]:
    drawn = np.random.default_rng(seed).normal(3.0, sd, count) + math.log1p(slower)
    return [float(level) for level in drawn]


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [
        (0.0005, 3, 12.924),  # printed tables of Student's t
        (0.005, 11, 3.106),
        (0.01, 9, 2.821),
        (0.05, 5, 2.015),
        (0.025, 1, 12.706),
        (0.005, math.inf, 2.5758),
    ],
)
def test_students_t_agrees_with_printed_tables(level: float, freedom: float, t: float) -> None:
    assert critical(level, freedom) == pytest.approx(t, abs=6e-4)
    assert upper_tail(critical(level, freedom), freedom) == pytest.approx(level)
    assert upper_tail(-t, freedom) == pytest.approx(1.0 - upper_tail(t, freedom))


def test_a_slower_run_is_found_against_ten_and_an_even_one_passes() -> None:
    baseline = levels(10, 0.005)
    slow = judge_history(levels(1, 0.005, 0.05, seed=1), baseline)
    assert (slow.decision, slow.baseline_runs, slow.new_runs) == ("FAIL", 10, 1)
    assert "against 10 runs" in slow.headline
    assert judge_history(levels(3, 0.005, seed=2), baseline).decision == "PASS"


def test_against_a_noisy_history_nothing_is_decided_and_the_limit_is_said() -> None:
    noisy = judge_history(levels(1, 0.05, 0.03, seed=4), levels(12, 0.05))
    assert noisy.decision == "INCONCLUSIVE"
    assert noisy.smallest_detectable > 0.10
    assert f"{100 * noisy.smallest_detectable:.1f} %" in noisy.headline


def test_more_new_runs_see_smaller_changes() -> None:
    baseline = levels(12, 0.01)
    one, three = (judge_history([3.0] * count, baseline) for count in (1, 3))
    assert three.smallest_detectable < one.smallest_detectable
    assert three.predicted_high < one.predicted_high


def test_the_prediction_is_students() -> None:
    baseline = levels(10, 0.02)
    spread = float(np.std(baseline, ddof=1))
    edge = float(np.mean(baseline)) + 2.8214 * spread * math.sqrt(1.1)
    assert judge_history([edge + 1e-4], baseline).decision == "FAIL"
    assert judge_history([edge - 1e-4], baseline).decision == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("new", "baseline", "named"),
    [([], [3.0] * 10, "new"), ([3.0], [3.0] * 9, "baseline"), ([math.nan], [3.0] * 10, "log_mean")],
)
def test_what_cannot_be_judged_is_refused(
    new: list[float], baseline: list[float], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        judge_history(new, baseline)


def test_a_calibration_measures_what_the_runs_were_made_with() -> None:
    model = calibrate(side("run", range(20), run_sd=0.02))
    assert model.run_sd_log == pytest.approx(0.02, rel=0.5)
    assert model.runs == 20
    assert not model.trending
    assert model.metric_sd_share["forward"] == pytest.approx(0.02 * 0.3, rel=0.6)


def test_a_calibration_sees_that_the_machine_drifts() -> None:
    runs = [side("run", range(seed, seed + 1), run_sd=0.0, slower=0.01 * seed)[0] for seed in range(8)]  # fmt: skip
    model = calibrate(runs)
    assert model.trending
    assert model.trend_log == pytest.approx(0.01, rel=0.2)
    found = compare(runs[:1], runs[7:], noise=model)
    assert any("drifted" in text for text in found.warnings)


def test_a_calibration_takes_enough_runs_of_one_workload_only() -> None:
    runs = side("run", range(6))
    with pytest.raises(ValueError, match="5 given, 6 needed"):
        calibrate(runs[:5])
    with pytest.raises(ValueError, match="fingerprint"):
        calibrate([*runs[:5], replace(runs[5], fingerprint="0123456789abcdef")])
    step = replace(runs[5].metrics["step_time"], log_mean=None)
    with pytest.raises(ValueError, match="log_mean"):
        calibrate([*runs[:5], replace(runs[5], metrics={**runs[5].metrics, "step_time": step})])


def test_with_a_quiet_machine_known_one_run_a_side_sees_more() -> None:
    model = calibrate(side("run", range(20), run_sd=0.005))
    a, b = side("a", range(30, 31), run_sd=0.005), side("b", range(40, 41), run_sd=0.005, slower=0.05)  # fmt: skip
    assert compare(a, b).verdict == "INCONCLUSIVE"
    found = compare(a, b, noise=model)
    assert (found.verdict, found.error_basis) == ("REGRESSION", "noise_model")
    assert "measured on 20 runs" in found.confidence


def test_a_noise_model_of_another_workload_is_not_used() -> None:
    model = replace(calibrate(side("run", range(6))), fingerprint="0123456789abcdef")
    found = compare(side("a", range(1)), side("b", range(9, 10)), noise=model)
    assert found.error_basis == "assumed"
    assert any("not used" in text for text in found.warnings)
