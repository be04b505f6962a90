"""LOW_MFU and RECOVERABLE: when they speak, what they point at, and that a clean run stays clean."""

import pytest

from tests.labs.budgets import analysis_of, counted_step, kinds, on_gpu, with_flops
from tests.labs.runs import CPU_STEP, make_rank
from traintrace_analysis.findings import Finding
from traintrace_analysis.model import Analysis

PEAK = 1.0
STEP_S = 11.8e-3  # of the builder's ordinary step


def work(share: float) -> float:
    """Give the operations of a step that reaches `share` of the peak."""
    return share * PEAK * 1e12 * STEP_S


def efficiency(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.family == "efficiency"]


def test_compute_far_from_its_peak_is_named_in_seconds() -> None:
    rank = with_flops(make_rank(300), flops_per_step=work(0.05))
    analysis = analysis_of(rank)
    (low,) = efficiency(analysis)
    assert (low.kind, low.severity, analysis.verdict.kind) == ("LOW_MFU", "warning", "LOW_MFU")
    assert low.evidence["largest_line"] == "compute_overhead"
    compute_s = (
        sum(rank.totals.account_ns[name] for name in ("forward", "backward", "optimizer")) / 1e9
    )
    assert low.cost_s == pytest.approx(compute_s - 300 * work(0.05) / PEAK / 1e12 / 0.3)
    assert low.gain is not None
    assert low.gain.low == 1.0
    assert "as given" in low.why


@pytest.mark.parametrize("share", [0.20, 0.29])
def test_a_little_under_what_others_reach_is_an_observation(share: float) -> None:
    analysis = analysis_of(with_flops(make_rank(300), flops_per_step=work(share)))
    (low,) = efficiency(analysis)
    assert (low.severity, low.cost_s) == ("info", 0.0)
    assert analysis.verdict.kind == "COMPUTE_BOUND"
    assert analysis.families["efficiency"].state == "clean"


def test_small_steps_that_lose_little_are_not_blamed() -> None:
    tiny = {"input_wait": 0.05, "forward": 0.4, "backward": 0.6, "optimizer": 0.1, "other": 0.05}
    rank = with_flops(make_rank(300, ms=tiny), flops_per_step=1e6)
    assert kinds(analysis_of(rank)) == []


def test_on_the_host_clock_of_a_device_no_seconds_of_compute_are_named() -> None:
    rank = with_flops(on_gpu(make_rank(300)), flops_per_step=1e11, peak_tflops=100.0)
    (low,) = efficiency(analysis_of(rank))
    assert (low.severity, low.cost_s) == ("info", 0.0)
    assert "host clock" in low.why


def test_seconds_of_compute_that_another_finding_names_are_left_out() -> None:
    heavy = {**CPU_STEP, "optimizer": 12.0}
    rank = with_flops(make_rank(300, ms=heavy), flops_per_step=work(0.05))
    analysis = analysis_of(rank)
    costs = {one.kind: one.cost_s for one in analysis.findings if one.severity != "info"}
    assert "OPTIMIZER_HEAVY" in costs
    compute_s = (
        sum(rank.totals.account_ns[name] for name in ("forward", "backward", "optimizer")) / 1e9
    )
    assert sum(costs.values()) <= compute_s
    (low,) = efficiency(analysis)
    assert "OPTIMIZER_HEAVY" in low.why


def test_a_large_line_that_nobody_names_is_an_observation() -> None:
    dropped = {step: {"aborted": 300.0} for step in (20, 40, 60, 80)}
    analysis = analysis_of(make_rank(100, before_ms=dropped))
    (found,) = efficiency(analysis)
    assert (found.kind, found.severity, found.cost_s) == ("RECOVERABLE", "info", 0.0)
    assert (found.evidence["line"], found.evidence["line_s"]) == ("aborted", 1.2)
    assert kinds(analysis) == []


def test_a_large_line_that_a_finding_names_is_named_once() -> None:
    evaluations = {step: {"evaluation": 400.0} for step in (20, 40, 60, 80)}
    analysis = analysis_of(make_rank(100, before_ms=evaluations))
    assert kinds(analysis) == ["EVALUATION_COST"]
    assert efficiency(analysis) == []
    assert analysis.efficiency is not None
    assert analysis.efficiency.named_by["evaluation"] == ("EVALUATION_COST",)


def test_without_a_phase_nothing_is_said_of_the_time_in_which_it_lies() -> None:
    steps = {"input_wait": 0.5, "backward": 6.0, "optimizer": 1.0, "other": 14.0}
    assert efficiency(analysis_of(make_rank(100, ms=steps))) == []


def test_what_a_run_pays_once_is_not_recoverable() -> None:
    analysis = analysis_of(make_rank(40, before_ms={1: {"startup": 5_000.0}}))
    assert efficiency(analysis) == []


def test_a_run_without_a_peak_says_what_to_do() -> None:
    state = analysis_of(make_rank(100)).families["efficiency"]
    assert state.state == "not_measured"
    assert 'flops_per_step="count"' in state.reason
    unknown = on_gpu(make_rank(100), name=None)
    known_work = with_flops(unknown, counted_step(3, 100), peak_tflops=None)
    assert "give peak_tflops" in analysis_of(known_work).families["efficiency"].reason


def test_without_an_mfu_the_family_is_not_measured_whatever_the_lines_say() -> None:
    """A line that stands out, named or not, makes no clean bill of an efficiency that nobody knows."""
    dropped = {step: {"aborted": 300.0} for step in (20, 40, 60, 80)}
    evaluated = {step: {"evaluation": 400.0} for step in (20, 40, 60, 80)}
    for before, observed in ((dropped, True), (evaluated, False)):
        state = analysis_of(make_rank(100, before_ms=before)).families["efficiency"]
        assert state.state == "not_measured"
        assert state.reason.startswith("Not measured: the operations of a step are not known")
        assert state.reason.endswith("; observed: RECOVERABLE.") == observed


@pytest.mark.parametrize("share", [0.31, 0.5, 0.9])
@pytest.mark.parametrize("jitter", [0.03, 0.3])
def test_a_clean_run_is_clean(share: float, jitter: float) -> None:
    rank = with_flops(make_rank(400, jitter=jitter), flops_per_step=work(share))
    analysis = analysis_of(rank)
    assert kinds(analysis) == []
    assert efficiency(analysis) == []
