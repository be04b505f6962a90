"""Answers that were wrong once."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.lockstep import noise, own_work, run_of, synchronise
from tests.labs.machine import GB, device_readings
from tests.labs.runs import make_rank, make_run
from traintrace.facts import LoaderSetup, RunFacts, Setup
from traintrace_analysis import REQUIRED_COLUMNS, Analysis, analyse
from traintrace_analysis.findings import Finding

CUDA = Setup(device_kind="cuda", device_name="H100", cpu_count=16)


def found(analysis: Analysis, kind: str) -> Finding:
    return next(finding for finding in analysis.findings if finding.kind == kind)


class TestRhythm:
    def test_pauses_at_a_fixed_distance_are_told_with_that_distance(self) -> None:
        """Five of them in 300 steps, 50 apart, were told as about every 60 steps."""
        pauses = {step: {"evaluation": 900.0} for step in range(51, 300, 50)}
        evaluation = found(analyse(make_run(make_rank(300, before_ms=pauses))), "EVALUATION_COST")
        assert evaluation.evidence["every_steps"] == 50
        assert "each, every 50 steps" in evaluation.why
        assert "instead of every 50 steps" in evaluation.action

    def test_uneven_distances_are_told_by_the_one_in_the_middle(self) -> None:
        pauses = {step: {"evaluation": 900.0} for step in (20, 60, 101, 140, 290)}
        evaluation = found(analyse(make_run(make_rank(300, before_ms=pauses))), "EVALUATION_COST")
        assert "about every 40 steps" in evaluation.why


class TestFullDevice:
    def pressure(self, taken: float, reserved: float, allocated: float) -> Finding:
        memory = {
            "peak_allocated_bytes": round(allocated * 80 * GB),
            "peak_reserved_bytes": round(reserved * 80 * GB),
        }
        readings = device_readings(memory_used_bytes=round(taken * 80 * GB))
        rank = make_rank(setup=CUDA, memory=memory, devices=readings)
        return found(analyse(make_run(rank)), "MEMORY_PRESSURE")

    @pytest.mark.parametrize(("taken", "severity"), [(0.975, "warning"), (0.981, "critical")])
    def test_from_98_percent_on_it_is_critical(self, taken: float, severity: str) -> None:
        assert self.pressure(taken, taken - 0.01, taken - 0.04).severity == severity

    def test_cache_that_the_allocator_can_give_back_is_room(self) -> None:
        assert self.pressure(0.99, 0.98, 0.60).severity == "warning"


class TestSetUps:
    def job(self, culprits: tuple[int, ...], setup: Setup, ranks: int = 4) -> RunFacts:
        own = own_work(ranks, 80, noise(np.random.default_rng(2), (ranks, 80), cv=0.03))
        own["forward"][list(culprits)] += 30.0
        run = run_of(synchronise(own))
        changed = [
            replace(one, setup=setup if one.rank in culprits else one.setup) for one in run.ranks
        ]
        return replace(run, ranks=tuple(changed))

    def test_what_the_slow_rank_was_set_up_with_is_named(self) -> None:
        slow = Setup(
            strategy="ddp", device_kind="cpu", cpu_count=2, omp_threads=16, batch_size=64,
            loader=LoaderSetup(workers=3),
        )  # fmt: skip
        straggler = found(analyse(self.job((1,), slow)), "COMPUTE_STRAGGLER")
        assert "Its set-up is not that of the others: CPUs 2 instead of 8." in straggler.why
        assert straggler.action.startswith(
            "First give rank 1 the set-up of the others (CPUs 2 instead of 8). "
        )
        assert straggler.evidence["set_up_differs"] == "CPUs 2 instead of 8"

    def test_equal_set_ups_are_not_spoken_of(self) -> None:
        straggler = found(analyse(self.job((1,), Setup(strategy="ddp", device_kind="cpu", cpu_count=8))), "COMPUTE_STRAGGLER")  # fmt: skip
        assert "set-up" not in straggler.why + straggler.action
        assert straggler.evidence["set_up_differs"] is None


def test_padded_tokens_are_read_and_explain_uneven_work() -> None:
    assert "padded_tokens" in REQUIRED_COLUMNS
    rng = np.random.default_rng(6)
    amounts = rng.uniform(0.6, 1.6, (4, 120))
    own = own_work(4, 120)
    for name in ("forward", "backward"):
        own[name] *= amounts
    run = run_of(synchronise(own), samples=None)
    ranks = [
        replace(rank, columns={**rank.columns, "padded_tokens": np.rint(4096 * amounts[rank.rank]).astype(int).tolist()})
        for rank in run.ranks
    ]  # fmt: skip
    uneven = found(analyse(replace(run, ranks=tuple(ranks))), "LOAD_IMBALANCE")
    assert uneven.evidence["amount"] == "padded_tokens"
