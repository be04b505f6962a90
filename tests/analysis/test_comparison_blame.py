"""Which phase, what moved, what the findings say, and when a verdict is mixed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.labs.compared import STEP, made, side
from traintrace.facts import Setup
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.finding_changes import finding_changes
from traintrace_analysis.comparison.model import ComparedRun, Comparison, NoiseModel, RunFinding


def sides(change: Mapping[str, float], runs: int = 5) -> Comparison:
    """Compare runs with runs whose accounts take so many ms more."""
    after = {name: mean + change.get(name, 0.0) for name, mean in STEP.items()}
    return compare(
        side("a", range(runs), run_sd=0.005), side("b", range(40, 40 + runs), run_sd=0.005, ms=after)
    )  # fmt: skip


def judged(of: Comparison) -> dict[str, str]:
    return {one.name: one.judged for one in of.phases}


@pytest.mark.parametrize("culprit", ["input_wait", "forward", "backward", "optimizer"])
def test_the_phase_that_grew_is_blamed_and_no_other(culprit: str) -> None:
    found = sides({culprit: 2.0})
    assert found.verdict == "REGRESSION"
    assert [name for name, said in judged(found).items() if said == "regressed"] == [culprit]
    first = found.phases[0]
    assert first.name == culprit
    assert first.difference_s == pytest.approx(0.002, rel=0.15)
    assert first.share_of_change == pytest.approx(1.0, abs=0.2)
    assert found.headline.endswith(f"mostly in {culprit}.")
    assert found.metrics[0].difference_ms is not None


def test_a_faster_phase_is_an_improvement() -> None:
    found = sides({"backward": -2.0})
    assert found.verdict == "IMPROVEMENT"
    assert judged(found)["backward"] == "improved"
    assert "faster" in found.headline


def test_what_one_phase_gave_and_another_took_has_moved_and_not_regressed() -> None:
    found = sides({"forward": -2.0, "batch_prep": 2.0})
    assert found.verdict == "EQUIVALENT"
    by_name = {one.name: one for one in found.phases}
    assert by_name["batch_prep"].judged == by_name["forward"].judged == "moved"
    assert by_name["batch_prep"].partner == "forward"
    assert "moved, not regressed" in found.why
    assert "mostly" not in found.headline


def test_a_phase_can_be_told_where_the_step_cannot() -> None:
    """Half a percent of the step is a fifth of a phase."""
    found = sides({"batch_prep": 0.15}, runs=6)
    assert found.verdict in ("EQUIVALENT", "INCONCLUSIVE")
    assert judged(found)["batch_prep"] == "regressed"


def test_metrics_come_by_the_size_of_their_change() -> None:
    found = sides({"forward": 1.0, "optimizer": -0.4})
    sizes = [abs(one.difference_ms or 0.0) for one in found.metrics]
    assert sizes == sorted(sizes, reverse=True)


def test_a_change_that_matters_relatively_but_not_absolutely_is_none() -> None:
    tiny = {name: mean / 200.0 for name, mean in STEP.items()}
    slower = {name: 1.08 * mean for name, mean in tiny.items()}
    found = compare(side("a", range(6), run_sd=0.002, ms=tiny), side("b", range(20, 26), run_sd=0.002, ms=slower))  # fmt: skip
    row = next(one for one in found.metrics if one.name == "step_time")
    assert row.ratio_low is not None
    assert row.ratio_low > 1.0
    assert found.verdict == "EQUIVALENT"


def test_less_memory_for_more_time_is_mixed() -> None:
    slower = {**STEP, "backward": 14.0}
    lean = [replace(run, memory={"peak_allocated_bytes": 6e9}) for run in side("b", range(20, 24), ms=slower)]  # fmt: skip
    full = [replace(run, memory={"peak_allocated_bytes": 9e9}) for run in side("a", range(4))]
    found = compare(full, lean)
    assert found.verdict == "MIXED"
    assert "memory is 9.00 GB in A and 6.00 GB in B" in found.headline


def named(run: ComparedRun, severity: str | None, state: str = "clean") -> ComparedRun:
    found: tuple[RunFinding, ...] = ()
    if severity == "info":
        found = (RunFinding("INPUT_BOUND", "step_time", "info", 1.0),)
    elif severity == "warning":
        found = (RunFinding("INPUT_BOUND", "step_time", "warning", 1.0),)
    elif severity == "critical":
        found = (RunFinding("INPUT_BOUND", "step_time", "critical", 1.0),)
    return replace(run, findings=found, families={**run.families, "step_time": state})


@pytest.mark.parametrize(
    ("before", "after", "states", "turn"),
    [
        ("warning", "critical", ("finding", "finding"), "worse"),
        (None, "warning", ("clean", "finding"), "appeared"),
        ("critical", "info", ("finding", "clean"), "better"),
        ("warning", None, ("finding", "clean"), "gone"),
        ("warning", "warning", ("finding", "finding"), "same"),
        ("critical", None, ("finding", "not_measured"), "unknown"),
        ("critical", None, ("finding", "insufficient"), "unknown"),
        (None, "warning", ("not_measured", "finding"), "unknown"),
    ],
)
def test_an_unknown_finding_is_never_best(
    before: str | None, after: str | None, states: tuple[str, str], turn: str
) -> None:
    run = made(steps=60)
    changes = finding_changes([named(run, before, states[0])], [named(run, after, states[1])])
    assert [one.turn for one in changes if one.kind == "INPUT_BOUND"] == [turn]


def test_other_hardware_is_not_comparable_and_other_versions_are_said() -> None:
    gpu = {"device_kind": "cuda", "cpu_count": 16}
    a = made(setup=Setup(device_name="A100", **gpu))  # type: ignore[arg-type]
    b = made(seed=1, setup=Setup(device_name="H100", **gpu))  # type: ignore[arg-type]
    found = compare([a], [b])
    assert (found.verdict, found.error_rate) == ("INCOMPARABLE", None)
    assert "device: A100 in A, H100 in B" in found.headline
    assert found.metrics[0].difference_ms is not None
    other = replace(made(seed=1), versions={**made().versions, "torch": "2.14.0"})
    warned = compare([made()], [other])
    assert warned.verdict != "INCOMPARABLE"
    assert any("torch: 2.13.0+cpu in A, 2.14.0 in B" in text for text in warned.warnings)


def test_a_run_that_did_not_complete_passes_no_guard() -> None:
    failed = replace(made(seed=1), status="failed")
    found = compare([made()], [failed], max_regression=0.5)
    assert any("is failed, not completed" in text for text in found.warnings)
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_sides_that_ran_one_after_the_other_are_warned_of() -> None:
    apart = compare(side("a", range(3)), side("b", range(10, 13)))
    assert any("Interleave" in text for text in apart.warnings)


def test_a_threshold_is_inclusive_and_of_the_right_kind() -> None:
    run = made()
    same = compare([run], [replace(run, id="again")], max_regression=0.20)
    assert same.guard is not None
    assert same.guard.outcome == "WITHIN_THRESHOLD"
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="max_regression"):
            compare([run], [run], max_regression=wrong)
    with pytest.raises(ValueError, match="a: no run"):
        compare([], [run])


def test_a_run_given_twice_is_no_second_run() -> None:
    one, other = side("a", range(1))[0], side("b", range(9, 10), slower=0.05)[0]
    found = compare([one, one, one], [other, other, other], max_regression=0.0)
    assert found.verdict == "INCOMPARABLE"
    assert "given twice" in found.headline
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"
    itself = compare([one], [one])
    assert itself.verdict == "INCOMPARABLE"
    assert "on both sides" in itself.headline
    copied = compare([one, other], [one], max_regression=0.5)
    assert copied.guard is not None
    assert copied.guard.outcome == "INCONCLUSIVE"


def test_faster_is_faster_beyond_chance() -> None:
    found = compare(side("a", range(5)), side("b", range(30, 35), slower=-0.10), max_regression=0.05)  # fmt: skip
    assert found.guard is not None
    assert (found.guard.outcome, found.verdict) == ("FASTER", "IMPROVEMENT")


@pytest.mark.parametrize(("more_ms", "said"), [(0.80, "open"), (1.25, "regressed")])
def test_many_phases_ask_for_more_evidence_of_each(more_ms: float, said: str) -> None:
    """Holm: of twelve accounts one looks changed with p < 1 % in a tenth of all comparisons."""
    run = made()
    forward = run.metrics["forward"]
    assert forward.mean_ms is not None
    slower = replace(
        forward,
        mean_ms=forward.mean_ms + more_ms,
        block_means=tuple(mean + more_ms for mean in forward.block_means),
    )
    other = replace(run, id="other", metrics={**run.metrics, "forward": slower})
    # 1 % of 20 ms between runs, so 0.28 ms between two: 2.8 and 4.4 standard errors.
    shares = dict.fromkeys(run.metrics, 0.01)
    model = NoiseModel(0.01, 2000, run.fingerprint, shares)
    found = compare([run], [other], noise=model)
    row = next(one for one in found.metrics if one.name == "forward")
    assert row.p_value is not None
    assert row.p_value < 0.01
    assert judged(found)["forward"] == said


def test_a_machine_known_to_be_noisy_gives_no_verdict_on_what_it_does_by_itself() -> None:
    a, b = side("a", range(1)), side("b", range(9, 10), slower=0.15)
    assert compare(a, b).verdict == "REGRESSION"
    noisy = NoiseModel(0.10, 12, a[0].fingerprint)
    found = compare(a, b, noise=noisy, max_regression=0.05)
    assert found.verdict == "INCONCLUSIVE"
    assert "measured on 12 runs" in found.confidence
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_a_run_that_waited_for_a_core_shows_no_regression_by_itself() -> None:
    a, b = made(name="a"), made(seed=1, level=0.25, name="b")
    assert compare([a], [b]).verdict == "REGRESSION"
    found = compare([a], [replace(b, process={"run_queue_share": 0.25})], max_regression=0.05)
    assert found.verdict == "INCONCLUSIVE"
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"
    assert "waited for a core 25 % of its time" in found.confidence


def test_a_stored_spread_of_few_runs_is_one_estimate_for_both_sides() -> None:
    a, b = made(name="a", steps=4000), made(seed=1, level=0.17, name="b", steps=4000)
    found = compare([a], [b], noise=NoiseModel(0.03, 6, a.fingerprint))
    assert found.verdict == "INCONCLUSIVE"  # 4.0 standard errors: Student's t of 5 has 4.03 at 1 %
    assert found.metrics[0].ratio_low is not None
