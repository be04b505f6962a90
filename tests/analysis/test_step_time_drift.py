"""Drift and warm-up: steps that are slower at the end, or at the beginning."""

import pytest

from tests.labs.runs import make_rank, make_run
from tests.labs.steps import found, named, run, step, with_columns
from traintrace.facts import EPOCH_FIRST
from traintrace_analysis import analyse


def test_a_step_that_takes_longer_each_time_drifts_from_its_start_to_its_end() -> None:
    """stargan-v2#65, PL#14270: step i takes 10 + 0.2 i ms."""
    analysis = analyse(
        make_run(
            make_rank(
                100,
                ms={"input_wait": 0.1, "forward": 3.9, "backward": [6.0 + 0.2 * k for k in range(1, 101)]},
                jitter=0.0,
            )
        )
    )  # fmt: skip
    finding = found(analysis, "DRIFT")
    assert finding is not None
    assert analysis.verdict.kind == "DRIFT"
    assert finding.evidence["start_ms"] == pytest.approx(10.2, rel=0.02)
    assert finding.evidence["end_ms"] == pytest.approx(30.0, rel=0.02)
    assert finding.evidence["shift_at_step"] is None
    assert finding.evidence["grew_in"] == "backward"
    assert finding.cost_s == pytest.approx(100 * 9.9e-3, rel=0.03)
    assert analysis.metrics["step_time"].drift_ms == pytest.approx(19.8, rel=0.03)
    assert "BACKWARD_HEAVY" not in named(analysis)


def test_a_backward_pass_that_grows_is_billed_as_growth_and_not_as_heavy() -> None:
    analysis = run(200, forward=4.0, backward=[12.0 + 0.25 * k for k in range(200)])
    assert named(analysis) == {"DRIFT"}


def test_a_level_that_rises_at_once_names_the_step() -> None:
    finding = found(run(300, forward=[8.0] * 180 + [14.0] * 120), "DRIFT")
    assert finding is not None
    assert finding.evidence["shift_at_step"] == 181
    assert finding.severity == "warning"
    assert finding.cost_s == pytest.approx(120 * 6e-3, rel=0.03)


@pytest.mark.parametrize(
    ("growth", "severity"), [(0.02, None), (0.06, "info"), (0.25, "warning"), (0.9, "critical")]
)
def test_growth_is_mentioned_from_3_percent_and_warned_of_from_10(
    growth: float, severity: str | None
) -> None:
    forward = [8.0 + 20.0 * growth * k / 399 for k in range(400)]
    finding = found(run(400, forward=forward), "DRIFT")
    assert (None if finding is None else finding.severity) == severity


def test_steps_that_get_faster_are_no_finding() -> None:
    assert found(run(300, forward=[14.0 - 0.02 * k for k in range(300)]), "DRIFT") is None


@pytest.mark.parametrize("epochs", [2, 3, 10])
@pytest.mark.parametrize("marked", [True, False])
def test_waits_that_climb_in_each_epoch_are_no_drift(epochs: int, marked: bool) -> None:
    length = 300 // epochs
    climb = [8.0 + 10.0 * (k % length) / length for k in range(300)]
    flags = {k + 1: EPOCH_FIRST for k in range(0, 300, length)} if marked else {}
    analysis = analyse(make_run(make_rank(300, ms=step(forward=climb), flags=flags)))
    assert found(analysis, "DRIFT") is None


def test_growth_over_many_epochs_is_drift() -> None:
    flags = {k: EPOCH_FIRST for k in range(1, 301, 30)}
    rank = make_rank(300, ms=step(forward=[8.0 + 0.04 * k for k in range(300)]), flags=flags)
    assert "DRIFT" in named(analyse(make_run(rank)))


def test_growth_that_went_away_again_is_no_drift() -> None:
    box = [8.0] * 120 + [16.0] * 90 + [8.0] * 90
    assert found(run(300, forward=box), "DRIFT") is None


def test_more_tokens_per_step_explain_longer_steps_and_blame_nobody() -> None:
    forward = [8.0 + 0.1 * k for k in range(300)]
    rank = with_columns(
        make_rank(300, ms=step(forward=forward)), tokens=[int(100 * (value + 12)) for value in forward]
    )  # fmt: skip
    finding = found(analyse(make_run(rank)), "DRIFT")
    assert finding is not None
    assert (finding.severity, finding.cost_s) == ("info", 0.0)
    assert "tokens" in finding.why


def test_growth_of_a_wait_is_billed_to_the_wait_and_only_mentioned_here() -> None:
    analysis = run(300, input_wait=[2.0 + 0.1 * k for k in range(300)])
    finding = found(analysis, "DRIFT")
    assert named(analysis) == {"INPUT_BOUND"}
    assert finding is not None
    assert (finding.severity, finding.cost_s) == ("info", 0.0)
    assert finding.evidence["grew_in"] == "input_wait"


def test_in_a_short_run_growth_cannot_be_told_from_a_wave() -> None:
    assert found(run(50, forward=[8.0 + 0.3 * k for k in range(50)]), "DRIFT") is None


def test_a_short_run_is_not_blamed_for_its_warm_up() -> None:
    """PT#97783: five steps of 500 ms, then 45 of 20."""
    analysis = run(50, forward=[488.0] * 5 + [8.0] * 45)
    assert analysis.window.warmup_steps == 5
    assert analysis.warmup_ms == pytest.approx(2500.0, rel=0.03)
    assert analysis.metrics["step_time"].median_ms == pytest.approx(20.0, rel=0.03)
    finding = found(analysis, "WARMUP_COST")
    assert finding is not None
    assert finding.severity == "info"
    assert finding.evidence["slow_in"] == "forward"
    assert not named(analysis) & {"JITTER", "DRIFT"}


def test_a_warm_up_that_is_felt_is_named_with_what_was_slow() -> None:
    analysis = run(600, forward=[20_000.0] * 2 + [160.0] * 598)
    finding = found(analysis, "WARMUP_COST")
    assert finding is not None
    assert finding.severity == "warning"
    assert finding.cost_s == pytest.approx(2 * 19.84, rel=0.04)
    assert "compilation" in finding.action


def test_a_warm_up_under_a_tenth_of_the_run_is_no_finding() -> None:
    analysis = run(3_000, forward=[20_000.0] * 2 + [160.0] * 2_998)
    assert analysis.window.warmup_steps == 2
    assert found(analysis, "WARMUP_COST") is None


def test_a_window_without_the_start_of_the_run_says_nothing_about_the_warm_up() -> None:
    run_ = make_run(make_rank(600, ms=step(forward=[20_000.0] * 2 + [160.0] * 598)))
    analysis = analyse(run_, window_steps=300)
    assert found(analysis, "WARMUP_COST") is None
    assert "warm-up" in analysis.families["step_time"].reason
