"""Wrong answers that a published budget gives, and the right ones: what its numbers hide, clamp or blame."""

import pytest

from tests.labs.budgets import (
    analysis_of,
    budget_of,
    counted_step,
    kinds,
    on_gpu,
    rank_with,
    with_flops,
)
from tests.labs.runs import CPU_STEP, make_rank
from traintrace.peaks import peaks_of

S = 10**9


def test_time_outside_of_marked_phases_is_in_the_budget() -> None:
    """A budget that is the sum of its phases calls a run 83 % useful of which 83 % is invisible."""
    seen = {
        "forward": 100 * S // 1000,
        "backward": 100 * S // 1000,
        "communication": 40 * S // 1000,
    }
    unseen = {"other": 620 * S // 1000, "gap": 600 * S // 1000}
    budget = budget_of(with_flops(rank_with(seen | unseen), flops_per_step=1e9, peak_tflops=1.0))
    assert budget.total_ns == 1_460 * S // 1000
    assert budget.mfu == pytest.approx(0.1 / 1.46)
    assert budget.lines_ns["other"] + budget.lines_ns["gap"] == sum(unseen.values())


def test_a_phase_of_the_users_own_is_in_the_budget() -> None:
    accounts = {"forward": 104 * S // 1000, "user": 400 * S // 1000, "other": 3 * S // 1000}
    budget = budget_of(rank_with(accounts))
    assert budget.total_ns == sum(accounts.values())
    assert budget.lines_ns["user"] == accounts["user"]


def test_more_work_than_the_peak_allows_is_an_error_and_no_finding() -> None:
    """Twenty times too many operations: a clamp makes of it an MFU of 83 % without a fault."""
    rank = make_rank(100)
    per_step_s = rank.totals.wall_ns / 1e9 / 100
    too_many = 20 * per_step_s * 1e12
    analysis = analysis_of(with_flops(rank, flops_per_step=too_many, peak_tflops=1.0))
    budget = analysis.efficiency
    assert budget is not None
    assert budget.mfu is not None
    assert budget.mfu == pytest.approx(20.0)
    assert budget.lines_ns["compute_overhead"] < 0
    assert sum(budget.lines_ns.values()) == budget.total_ns
    assert "impossible" in budget.problem
    assert budget.problem in analysis.warnings
    assert not [one for one in analysis.findings if one.family == "efficiency"]
    assert analysis.families["efficiency"].state == "not_measured"
    assert "impossible" in analysis.families["efficiency"].reason


def test_work_that_fits_the_run_and_not_its_compute_is_an_error_too() -> None:
    rank = rank_with({"forward": S, "backward": S, "evaluation": 8 * S})
    budget = budget_of(with_flops(rank, flops_per_step=3e10, peak_tflops=1.0))
    assert budget.mfu == pytest.approx(0.3)
    assert "impossible" in budget.problem


def test_the_warm_up_is_in_the_budget() -> None:
    slow = [900.0, 700.0, *[4.0] * 58]
    rank = make_rank(60, ms={**CPU_STEP, "forward": slow}, jitter=0.0)
    budget = budget_of(rank)
    compute = sum(rank.totals.account_ns[name] for name in ("forward", "backward", "optimizer"))
    assert budget.lines_ns["compute"] == compute > 1_600_000_000


def test_steps_of_several_micro_batches_are_whole_steps() -> None:
    """A count of one micro-batch, taken for a step of four, is four times too small."""
    one = counted_step(3, 4 * 393_216, 64, micro_batches=4)
    budget = budget_of(with_flops(make_rank(50, samples=64), one))
    assert budget.flops_per_step == 1_572_864


@pytest.mark.parametrize(
    ("name", "wrongly"),
    [
        ("NVIDIA L40S", 121.0),
        ("NVIDIA L40", 121.0),
        ("NVIDIA H100 PCIe", 989.0),
        ("NVIDIA A10G", 125.0),
    ],
)
def test_a_device_is_known_by_its_whole_name(name: str, wrongly: float) -> None:
    peaks = peaks_of(name)
    assert peaks is not None
    assert peaks.tflops["bf16"] != pytest.approx(wrongly, rel=0.05)


@pytest.mark.parametrize(
    "name", ["NVIDIA RTX A1000 Laptop GPU", "NVIDIA T400", "NVIDIA A100X", "H100", "a100", ""]
)
def test_a_device_that_is_not_known_has_no_mfu_and_says_so(name: str) -> None:
    rank = with_flops(on_gpu(make_rank(50), name), counted_step(3, 10), peak_tflops=None)
    budget = budget_of(rank)
    assert budget.mfu is None
    assert f"no published peak is known for {name}" in budget.reason
    assert budget_of(rank, peak_tflops=2.0).mfu is not None


def test_the_number_format_decides_the_peak() -> None:
    """A float32 run that is held against the 16-bit peak looks fifteen times worse than it is."""
    rank = on_gpu(make_rank(50), precision="32-true")
    slow = budget_of(with_flops(rank, counted_step(3, 10**12), peak_tflops=None))
    half = counted_step(3, 0, flops={"bf16": 10**12}, backward_flops=0)
    fast = budget_of(with_flops(rank, half, peak_tflops=None))
    assert slow.mfu is not None
    assert fast.mfu is not None
    assert slow.mfu / fast.mfu == pytest.approx(989.5 / 67.0)
    missing = on_gpu(make_rank(50), "Tesla V100-SXM2-16GB")
    none = budget_of(with_flops(missing, half, peak_tflops=None))
    assert "no dense peak in bf16" in none.reason


def test_what_the_device_does_behind_the_host_is_no_input_wait() -> None:
    """Nineteen milliseconds of queued work, waited for in the next request: launch times blame the loader."""
    host = {"input_wait": 21.0, "forward": 0.5, "backward": 0.8, "optimizer": 0.5}
    device = {"forward": 6.0, "backward": 11.0, "optimizer": 2.0}
    rank = on_gpu(make_rank(100, ms=host, device_ms=device, jitter=0.0))
    analysis = analysis_of(with_flops(rank, flops_per_step=6e12))
    budget = analysis.efficiency
    assert budget is not None
    assert budget.compute_ns == 100 * 19_000_000
    assert budget.lines_ns["compute_elsewhere"] == 100 * (1_800_000 - 19_000_000)
    assert "RECOVERABLE" not in [one.kind for one in analysis.findings]


def test_one_slow_rank_is_not_named_a_second_time_by_the_budget() -> None:
    """Straggler, communication and recoverable time for one cause: the same seconds three times."""
    fast = {**CPU_STEP, "gradient_sync": 30.0}
    slow = {**CPU_STEP, "forward": 34.0, "gradient_sync": 0.2}
    ranks = [make_rank(100, ms=fast, rank=number) for number in range(3)]
    analysis = analysis_of(*ranks, make_rank(100, ms=slow, rank=3))
    named = [one for one in analysis.findings if one.severity != "info" and one.cost_s > 0.0]
    assert [one.kind for one in named] == ["COMPUTE_STRAGGLER"]
    assert "RECOVERABLE" not in [one.kind for one in analysis.findings]
    budget = analysis.efficiency
    assert budget is not None
    assert budget.named_by["exposed_communication"] == ("COMPUTE_STRAGGLER",)


def test_a_low_mfu_whose_cause_has_a_finding_costs_nothing_itself() -> None:
    waiting = {**CPU_STEP, "input_wait": 40.0}
    rank = with_flops(make_rank(200, ms=waiting), flops_per_step=2e9, peak_tflops=1.0)
    analysis = analysis_of(rank)
    assert kinds(analysis) == ["INPUT_BOUND"]
    (low,) = [one for one in analysis.findings if one.kind == "LOW_MFU"]
    assert (low.severity, low.cost_s, low.gain) == ("info", 0.0, None)
    assert low.evidence["largest_line"] == "input_wait"
    assert "INPUT_BOUND" in low.why


def test_a_healthy_run_below_the_published_peak_is_no_fault() -> None:
    """Nearly every real job is under half of the peak: a finding that always fires says nothing."""
    rank = make_rank(200)
    peak = 2.5 * 200 / (rank.totals.wall_ns / 1e9) / 1e3
    analysis = analysis_of(with_flops(rank, flops_per_step=1e9, peak_tflops=peak))
    assert analysis.efficiency is not None
    assert analysis.efficiency.mfu == pytest.approx(0.4, rel=0.01)
    assert not [one for one in analysis.findings if one.family == "efficiency"]
    assert analysis.families["efficiency"].state == "clean"
