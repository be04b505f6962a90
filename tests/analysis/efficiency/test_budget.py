"""The budget adds up to the wall time to the nanosecond, whatever it is made of, and MFU is what it says."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.labs.budgets import (
    analysis_of,
    budget_of,
    counted_step,
    on_gpu,
    rank_with,
    with_flops,
    with_totals,
)
from tests.labs.runs import CPU_STEP, make_rank
from traintrace.accounts import NAMES
from traintrace.facts import FLOPS_COUNTED

NS = some.integers(0, 10**15)


@settings(max_examples=60, deadline=None)
@given(
    accounts=some.dictionaries(some.sampled_from(NAMES), NS, min_size=1),
    flops=some.none() | some.floats(1.0, 1e24),
    peak=some.none() | some.floats(1e-6, 1e6),
)
def test_the_lines_are_the_wall_time_exactly(
    accounts: dict[str, int], flops: float | None, peak: float | None
) -> None:
    rank = with_flops(rank_with(accounts, steps=12), peak_tflops=peak, flops_per_step=flops)
    analysis = analysis_of(rank)
    budget = analysis.efficiency
    if not sum(accounts.values()):
        assert budget is None
        return
    assert analysis.wall is not None
    assert budget is not None
    assert sum(budget.lines_ns.values()) == budget.total_ns == analysis.wall.total_ns
    assert budget.total_ns == sum(accounts.values())
    assert all(isinstance(ns, int) for ns in budget.lines_ns.values())
    assert (budget.mfu is None) == (flops is None or peak is None)
    assert bool(budget.reason) == (budget.mfu is None)


@settings(max_examples=30, deadline=None)
@given(
    device=some.lists(some.floats(0.0, 50.0), min_size=3, max_size=3), flops=some.floats(1.0, 1e13)
)
def test_on_a_devices_clock_the_lines_add_up_as_well(device: list[float], flops: float) -> None:
    names = ("forward", "backward", "optimizer")
    rank = make_rank(40, device_ms=dict(zip(names, device, strict=True)), jitter=0.0)
    budget = budget_of(with_flops(on_gpu(rank), flops_per_step=flops))
    assert budget.compute_clock == "device"
    spent = sum(round(ms * 1e6) for ms in device) * 40
    assert budget.compute_ns == spent
    host = sum(rank.totals.account_ns[name] for name in names)
    assert budget.lines_ns["compute_elsewhere"] == host - spent


def test_mfu_is_work_over_peak_over_wall_time() -> None:
    rank = rank_with({"forward": 600_000_000, "backward": 200_000_000, "gap": 200_000_000})
    budget = budget_of(with_flops(rank, flops_per_step=3e9, peak_tflops=1.5))
    assert budget.lines_ns == {
        "useful_compute": 200_000_000,
        "compute_overhead": 600_000_000,
        "gap": 200_000_000,
    }
    assert budget.mfu == budget.mfu_low == budget.mfu_high == 0.2
    assert budget.compute_share_of_peak == 0.25
    assert budget.flops_per_step == 3e9


@pytest.mark.parametrize("accumulate", [1, 4])
def test_counted_steps_stand_for_all(accumulate: int) -> None:
    rank = with_totals(make_rank(100, samples=8 * accumulate), micro_batches=100 * accumulate)
    steps = [
        counted_step(number, accumulate * 7_000, 8 * accumulate, micro_batches=accumulate)
        for number in (3, 8)
    ]
    budget = budget_of(with_flops(rank, *steps, peak_tflops=1e-6))
    assert budget.work is not None
    assert budget.work.total == 100 * accumulate * 7_000
    assert (budget.work.convention, budget.work.counted_steps) == ("counted", 2)
    assert budget.mfu == pytest.approx(100 * accumulate * 7_000 / 1e6 / (budget.total_ns / 1e9))


def test_batches_of_any_size_are_right_in_sum() -> None:
    """The first batch is a sixteenth of the others: what counts is the work of a sample."""
    rank = with_totals(make_rank(100), samples=1 + 99 * 16)
    steps = (counted_step(1, 500, 1), counted_step(8, 8_000, 16))
    budget = budget_of(with_flops(rank, *steps))
    assert budget.work is not None
    assert (budget.work.basis, budget.work.total) == ("samples", 500 * (1 + 99 * 16))
    assert budget.work.low == budget.work.high == budget.work.total


def test_work_goes_with_tokens_where_it_does() -> None:
    sizes: Any = [{"padded_tokens": 100, "tokens": 70}, {"padded_tokens": 400, "tokens": 390}]
    steps = [counted_step(3 + i, 9 * one["padded_tokens"], 8, **one) for i, one in enumerate(sizes)]
    rank = with_totals(make_rank(10, samples=8), padded_tokens=2_000, tokens=1_500)
    budget = budget_of(with_flops(rank, *steps))
    assert budget.work is not None
    assert (budget.work.basis, budget.work.total) == ("padded_tokens", 18_000)


def test_work_that_goes_with_nothing_has_a_range() -> None:
    steps = (counted_step(3, 1_000, 10), counted_step(8, 2_000, 10))
    budget = budget_of(with_flops(make_rank(100, samples=10), *steps))
    assert budget.work is not None
    assert (budget.work.low, budget.work.total, budget.work.high) == (100_000, 150_000, 200_000)
    assert budget.mfu_low is not None
    assert budget.mfu_high is not None
    assert budget.mfu is not None
    assert budget.mfu_low < budget.mfu < budget.mfu_high


def test_each_number_format_has_its_own_peak() -> None:
    mixed = counted_step(3, 0, flops={"bf16": 989_500_000, "tf32": 494_500_000}, backward_flops=0)
    rank = on_gpu(make_rank(100))
    budget = budget_of(with_flops(rank, mixed, peak_tflops=None))
    assert budget.anchor is not None
    assert budget.anchor.tflops == {"bf16": 989.5, "tf32": 494.5}
    assert budget.lines_ns["useful_compute"] == 100 * 2_000


def test_6nd_is_labelled_and_refused_where_it_does_not_hold() -> None:
    from dataclasses import replace

    from traintrace.flopfacts import DenseModel

    rank = on_gpu(with_totals(make_rank(100), padded_tokens=1_000))
    dense = replace(rank, setup=replace(rank.setup, dense=DenseModel(50, "llama")))
    budget = budget_of(dense)
    assert budget.work is not None
    assert (budget.work.convention, budget.work.total) == ("6ND", 6 * 50 * 1_000)
    assert not budget.asked
    sharded = replace(dense, setup=replace(dense.setup, strategy="fsdp"))
    assert "6ND does not tell" in budget_of(sharded).reason
    assert "number of tokens" in budget_of(with_totals(dense, padded_tokens=None)).reason


def test_steps_that_were_given_up_are_not_counted() -> None:
    rank = with_totals(make_rank(100), steps_abandoned=10)
    budget = budget_of(with_flops(rank, counted_step(3, 10**9), counted_step(13, 3_200)))
    assert budget.work is not None
    assert budget.work.counted_steps == 1
    assert budget.work.total == 100 * 3_200


def test_what_counting_took_is_a_line_of_its_own_and_in_no_statistics() -> None:
    slow = {"forward": [20.0 if number in (2, 7) else 4.0 for number in range(60)]}
    flags = {3: FLOPS_COUNTED, 8: FLOPS_COUNTED}
    rank = make_rank(60, ms={**CPU_STEP, **slow}, flags=flags, jitter=0.0)
    analysis = analysis_of(with_flops(rank, counted_step(3, 10), counted_step(8, 10)))
    assert analysis.efficiency is not None
    assert analysis.efficiency.lines_ns["flop_counting"] == 32_000_000
    assert analysis.metrics["forward"].max_ms == 4.0
    assert 3 not in analysis.window.steps


def test_every_rank_has_an_mfu_of_its_own() -> None:
    ranks = [
        with_flops(make_rank(100, rank=number), flops_per_step=(number + 1) * 1e8)
        for number in range(2)
    ]
    budget = budget_of(*ranks)
    first, second = (budget.by_rank[number] for number in range(2))
    assert first is not None
    assert second is not None
    walls = [rank.totals.wall_ns for rank in ranks]
    assert Fraction(second) / Fraction(first) == pytest.approx(2 * walls[0] / walls[1])


def test_counted_steps_slow_no_throughput_down() -> None:
    slow = {"forward": [40.0 if number in (19, 29) else 4.0 for number in range(60)]}
    flags = {20: FLOPS_COUNTED, 30: FLOPS_COUNTED}
    counted = analysis_of(make_rank(60, ms={**CPU_STEP, **slow}, flags=flags, jitter=0.0))
    plain = analysis_of(make_rank(60, jitter=0.0))
    assert counted.throughput.samples_per_s == plain.throughput.samples_per_s
