"""What people reported of comparing runs, as tests on summaries; the numbers are of public issues."""

import pytest

from tests.labs.compared import STEP, facts, made, side, summary
from traintrace.facts import Setup
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.model import Comparison, MetricComparison, PhaseBlame
from traintrace_analysis.comparison.reading import compared_run

GPU = Setup(device_kind="cuda", device_name="H100", cpu_count=16)


def metric(of: Comparison, name: str = "step_time") -> MetricComparison:
    return next(one for one in of.metrics if one.name == name)


def phase(of: Comparison, name: str) -> PhaseBlame:
    return next(one for one in of.phases if one.name == name)


def test_r01_longer_validation_leaves_the_train_numbers_where_they_are() -> None:
    """composer#984, #1053: bigger validation images made "train time" longer."""
    short = [made(seed=s, between={50: {"evaluation": 20.0}}) for s in range(4)]
    long = [made(seed=s, between={50: {"evaluation": 2000.0}}) for s in range(4, 8)]
    found = compare(short, long)
    assert metric(found).ratio == pytest.approx(1.0, abs=0.03)
    assert metric(found).judged == "equivalent"
    evaluation = phase(found, "evaluation")
    assert (evaluation.place, evaluation.judged) == ("between", "regressed")
    assert evaluation.difference_s == pytest.approx(1.98 / 200)
    assert found.verdict == "MIXED"
    assert "evaluation" in found.headline


def test_r02_the_rate_does_not_depend_on_how_a_batch_is_split() -> None:
    """composer#271, DeepSpeed#2498: samples per second divided by the accumulation."""
    whole = made(setup=Setup(device_kind="cpu", cpu_count=8, batch_size=32, accumulation=1))
    split = made(seed=1, setup=Setup(device_kind="cpu", cpu_count=8, batch_size=8, accumulation=4))
    found = compare([whole], [split])
    rate = next(one for one in found.figures if one.name == "samples_per_s.step")
    assert rate.ratio == pytest.approx(1.0, abs=0.05)
    assert found.verdict not in ("REGRESSION", "IMPROVEMENT", "INCOMPARABLE")
    assert any("accumulation: 1 in A, 4 in B" in text for text in found.warnings)


def test_r02_other_work_in_a_step_is_not_comparable() -> None:
    found = compare([made(samples=32)], [made(seed=1, samples=64)], max_regression=0.1)
    assert found.verdict == "INCOMPARABLE"
    assert "samples per second" in found.headline
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_r03_time_between_steps_is_in_the_round_trip_and_not_in_the_step() -> None:
    """composer#1977: save and later callbacks were missing from the speed."""
    pauses = {step: {"checkpoint": 50.0} for step in range(2, 201)}
    found = compare([made({"forward": 50.0, "backward": 0.1, "optimizer": 0.1})],
                    [made({"forward": 50.0, "backward": 0.1, "optimizer": 0.1}, seed=1, between=pauses)])  # fmt: skip
    rates = {one.name: one.ratio for one in found.figures if one.section == "throughput"}
    assert rates["steps_per_s.step"] == pytest.approx(1.0, abs=0.02)
    assert rates["steps_per_s.round_trip"] == pytest.approx(0.5, abs=0.02)
    assert phase(found, "checkpoint").judged == "regressed"
    # One run a side says nothing of the step, and does say what lies between steps.
    assert (found.verdict, metric(found).judged) == ("INCONCLUSIVE", "open")
    assert "checkpoint between steps takes 49.7 ms a step more" in found.headline


def test_r05_mixed_clocks_are_not_comparable_and_give_no_difference() -> None:
    """TML#327, #328: device time of one run against host time of the other."""
    device = made(setup=GPU, device=True)
    host = made(seed=1, setup=GPU)
    assert (device.clock, host.clock) == ("device", "host")
    found = compare([device], [host], max_regression=0.05)
    assert found.verdict == "INCOMPARABLE"
    assert "clocks differ: device in A, host in B" in found.headline
    assert all(one.difference_ms is None and one.ratio is None for one in found.metrics)
    assert not found.phases
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_r07_an_absent_phase_is_unknown_and_its_time_is_not_blamed_on_the_rest() -> None:
    """TML#188: missing forward times became residual time."""
    unmarked = {**STEP, "other": STEP["other"] + STEP["forward"]}
    del unmarked["forward"]
    found = compare([made()], [made(unmarked, seed=1)])
    assert metric(found, "forward").judged == "unknown"
    assert "no call of the traced model was seen" in metric(found, "forward").reason
    for rest in ("other", "residual"):
        assert metric(found, rest).judged == "unknown"
        assert metric(found, rest).difference_ms is None
    assert phase(found, "other").judged == "unknown"
    assert found.verdict in ("EQUIVALENT", "INCONCLUSIVE")


def test_r11_the_same_code_with_eight_percent_of_jitter_passes_20_of_20() -> None:
    """pytorch/benchmark#1681, #1339: daily alarms from unstable tests."""
    answers = []
    for seed in range(20):
        found = compare(
            [made(seed=2 * seed, cv=0.08)],
            [made(seed=2 * seed + 1, cv=0.08)],
            max_regression=0.10,
        )
        assert found.guard is not None
        answers.append((found.guard.outcome, found.verdict))
    assert answers == [("WITHIN_THRESHOLD", "INCONCLUSIVE")] * 20


def test_r12_a_slower_run_is_named_with_its_phase_in_one_line() -> None:
    """coiled/benchmarks#190: numbers were printed, regressions missed."""
    slower = {**STEP, "backward": STEP["backward"] + 10.0}
    found = compare([made()], [made(slower, seed=1)], max_regression=0.20)
    assert found.guard is not None
    assert found.guard.outcome == "SLOWER"
    assert found.verdict == "REGRESSION"
    assert "backward" in found.headline
    assert "\n" not in found.headline


def test_r13_50_against_500_steps_of_the_same_length_are_no_change() -> None:
    """nsys-ai#523: other capture lengths gave confident nonsense."""
    found = compare([made(steps=50)], [made(seed=1, steps=500)], max_regression=0.10)
    assert metric(found).ratio == pytest.approx(1.0, abs=0.02)
    assert found.verdict in ("EQUIVALENT", "INCONCLUSIVE")
    assert found.guard is not None
    assert found.guard.outcome == "WITHIN_THRESHOLD"
    assert any("50 to 500 steps" in text for text in found.warnings)


def test_r13_a_longer_run_that_slows_down_is_compared_over_the_common_beginning() -> None:
    whole = made(seed=1, steps=1000, trend=0.06, cv=0.1)
    found = compare([made(steps=400, cv=0.1)], [whole])
    assert any("first 400 steps" in text for text in found.warnings)
    ratio = metric(found).ratio
    assert ratio is not None
    # Over all steps the level is 3 % higher, over the first 400 it is 1.2 % higher.
    assert abs(ratio - 1.012) < abs(ratio - 1.03)
    assert found.verdict == "INCONCLUSIVE"


def test_r13_where_the_common_beginning_is_too_short_nothing_is_said() -> None:
    whole = made(seed=1, steps=1000, trend=0.5)
    found = compare([made(steps=45)], [whole], max_regression=0.05)
    assert found.verdict == "INCONCLUSIVE"
    assert "too few" in found.headline
    assert found.error_rate is None
    said = {*(one.judged for one in found.metrics), *(one.judged for one in found.phases)}
    assert said <= {"open", "unknown"}
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_r13_the_warm_up_is_left_out() -> None:
    ways = {**STEP, "forward": 6.0}
    warm = made(ways, seed=1, warmup=10)
    assert warm.warmup_steps == 10
    found = compare([made(ways)], [warm])
    assert metric(found).ratio == pytest.approx(1.0, abs=0.02)


def test_r19_every_step_of_a_default_run_counts() -> None:
    """torchtune#2541: the default schedule captured two steps."""
    run = compared_run(summary(facts({"forward": 10.0}, steps=20)))
    assert run.steps == 20
    assert run.metrics["step_time"].n_effective is not None
    found = compare([run], [made({"forward": 10.0}, steps=20, seed=1)])
    assert found.verdict == "INCONCLUSIVE"


def test_several_runs_a_side_find_what_one_cannot() -> None:
    alone = compare(side("a", range(1)), side("b", range(50, 51), slower=0.05))
    assert alone.verdict == "INCONCLUSIVE"
    assert (metric(alone).smallest_detectable or 0.0) > 0.05
    many = compare(side("a", range(6)), side("b", range(50, 56), slower=0.05))
    assert many.verdict == "REGRESSION"
    assert many.error_basis == "runs"
    assert 0.0 < (metric(many).smallest_detectable or 0.0) < 0.05
