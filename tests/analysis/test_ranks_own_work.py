"""What counts as a rank's own work: rounds, clocks, sharded models, and what may hide waiting."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.lockstep import Floats, noise, own_work, run_of, synchronise, window_of
from tests.labs.runs import make_rank, make_run
from traintrace.facts import RunFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.ranks import Comparison, compare_ranks
from traintrace_analysis.ranks.own_work import measure_own_work

GPU = Setup(device_kind="cuda", device_name="H100", strategy="ddp")


def work(ranks: int, steps: int = 60, seed: int = 1, cv: float = 0.03) -> dict[str, Floats]:
    return own_work(ranks, steps, noise(np.random.default_rng(seed), (ranks, steps), cv=cv))


def compared(accounts: dict[str, Floats], strategy: str = "ddp") -> Comparison:
    comparison = compare_ranks(window_of(accounts, strategy=strategy))
    assert comparison is not None
    return comparison


def blamed(run: RunFacts) -> list[Finding]:
    findings = analyse(run).findings
    return [one for one in findings if one.family == "ranks" and one.severity != "info"]


def test_the_optimizer_of_one_step_delays_the_round_that_waits_for_it() -> None:
    own = work(3)
    own["optimizer"][1, 20] += 50.0
    accounts = synchronise(own)
    measured = measure_own_work(window_of(accounts))
    assert measured is not None
    assert int(measured.own[1].argmax()) == 21
    assert int(measured.waiting[0].argmax()) == 21


def test_what_happens_now_and_then_is_no_rank_s_pace() -> None:
    own = work(3)
    slow = {step: {"checkpoint": 400.0} for step in range(5, 60, 5)}
    accounts = synchronise(own)
    ranks = list(run_of(accounts).ranks)
    ms = {name: part[1].tolist() for name, part in accounts.items()}
    ranks[1] = make_rank(60, rank=1, ms=ms, jitter=0.0, before_ms=slow)
    analysis = analyse(make_run(*ranks))
    assert [one for one in analysis.findings if one.family == "ranks"] == []


@pytest.mark.parametrize(("strategy", "cause"), [("ddp", "input_wait"), ("fsdp", None)])
def test_a_sharded_rank_has_a_cause_only_if_one_account_covers_four_fifths(
    strategy: str, cause: str | None
) -> None:
    own = work(4)
    own["input_wait"][1] += 20.0
    own["other"][1] += 10.0
    (one,) = compared(synchronise(own, wait="backward"), strategy).stragglers
    assert list(one.rows) == [1]
    assert one.cause.account == cause
    assert one.cause.kind == ("INPUT_STRAGGLER" if cause else "STRAGGLER")


def test_ranks_that_take_turns_are_never_blamed_one_by_one() -> None:
    for seed in range(20):
        own = own_work(4, 60, noise(np.random.default_rng(seed), (4, 60)))
        own["forward"][np.arange(60) % 4, np.arange(60)] += 80.0
        assert compared(synchronise(own)).stragglers == ()


def test_noise_of_a_fifth_blames_nobody_though_means_differ_by_more_than_the_floor() -> None:
    apart, reports = [], 0
    for seed in range(60):
        factors = noise(np.random.default_rng(seed), (4, 60), cv=0.2, ar=0.5, spikes=0.01)
        comparison = compared(synchronise(own_work(4, 60, factors)))
        apart.append(float(comparison.departures_ns().max() / comparison.work.step.mean()))
        reports += bool(comparison.stragglers)
    assert np.mean(np.array(apart) > 0.03) > 0.5
    assert reports <= 3


def gpu_run(*, input_ms: float, wait_ms: float, busy_ms: float, timed: bool) -> RunFacts:
    """Four GPUs; rank 1 waits `input_ms` for batches, the others' devices `wait_ms` for it."""
    made = []
    step_ms = busy_ms + wait_ms + 2.0
    for rank in range(4):
        slow = rank == 1
        host = {
            "input_wait": input_ms if slow else 0.5,
            "forward": 3.0,
            "backward": 4.0,
            "optimizer": 1.0,
        }
        host["other"] = step_ms - sum(host.values())
        device = {"forward": 0.3 * busy_ms, "backward": 0.6 * busy_ms, "optimizer": 0.1 * busy_ms}
        device["backward"] += 0.0 if slow else wait_ms
        made.append(
            make_rank(
                60, rank=rank, ms=host, device_ms=device if timed else None, setup=GPU, jitter=0.01
            )
        )  # fmt: skip
    return make_run(*made)


@pytest.mark.parametrize("timed", [True, False])
def test_a_wait_that_starves_the_device_is_blamed_on_either_clock(timed: bool) -> None:
    (finding,) = blamed(gpu_run(input_ms=20.0, wait_ms=20.0, busy_ms=50.0, timed=timed))
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    if not timed:
        assert finding.severity == "warning"
        assert finding.confidence <= 0.8
        assert finding.gain is None or finding.gain.low == 1.0


def test_a_wait_behind_which_the_device_works_on_is_not_blamed() -> None:
    assert blamed(gpu_run(input_ms=20.0, wait_ms=0.0, busy_ms=50.0, timed=True)) == []


def test_a_host_that_is_slow_while_its_device_is_not_timed_is_not_blamed() -> None:
    run = gpu_run(input_ms=0.5, wait_ms=0.0, busy_ms=50.0, timed=False)
    slow = {"input_wait": 0.5, "forward": 23.0, "backward": 4.0, "optimizer": 1.0, "other": 23.5}
    moved = make_rank(60, rank=1, ms=slow, setup=GPU, jitter=0.01)
    assert blamed(replace(run, ranks=[run.ranks[0], moved, *run.ranks[2:]])) == []
    reason = analyse(run).families["ranks"].reason
    assert "host clock" in reason


def test_a_rank_whose_sync_is_not_marked_is_left_out_where_the_others_are() -> None:
    own = work(4)
    own["backward"][1] += 30.0
    run = run_of(synchronise(own))
    columns = {**run.ranks[3].columns, "gradient_sync_ns": [None] * 60}
    analysis = analyse(replace(run, ranks=[*run.ranks[:3], replace(run.ranks[3], columns=columns)]))
    assert analysis.ranks is not None
    assert set(analysis.ranks.by_rank) == {0, 1, 2}
    (finding,) = [one for one in analysis.findings if one.family == "ranks"]
    assert (finding.kind, finding.ranks) == ("BACKWARD_STRAGGLER", (1,))
