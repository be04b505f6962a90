"""What a cause costs and what removing it wins, against what a run without it would have taken."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.labs.lockstep import Floats, Wait, noise, own_work, run_of, synchronise
from traintrace.facts import EPOCH_FIRST, LoaderSetup, RankFacts, RunFacts, Setup, Span, Totals
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay, without

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Scenarios = Mapping[str, RunFacts]


def found(analysis: Analysis, kind: str) -> Finding:
    return next(finding for finding in analysis.findings if finding.kind == kind)


def ending_with(rank: RankFacts, account: str, ns: int) -> RankFacts:
    """Add time of `account` after the last step of a rank."""
    totals = rank.totals
    sums = {**totals.account_ns, account: totals.account_ns.get(account, 0) + ns}
    span = Span(totals.steps + 1, account, False, ns, 1)
    totals = replace(
        totals,
        account_ns=sums,
        wall_ns=totals.wall_ns + ns,
        calls={**totals.calls, account: totals.calls.get(account, 0) + 1},
    )
    return replace(rank, totals=totals, spans=[*rank.spans, span])


@pytest.mark.parametrize("account", ["evaluation", "checkpoint"])
def test_time_after_the_last_step_is_won_back_to_the_nanosecond(
    new_rank: NewRank, new_run: NewRun, account: str
) -> None:
    rank = ending_with(new_rank(40), account, 1_500_000_000)
    finding = found(analyse(new_run(rank)), f"{account.upper()}_COST")
    wall = rank.totals.wall_ns
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(wall / (wall - 1_500_000_000), rel=1e-12)
    assert finding.gain.low == finding.gain.high == finding.gain.speedup
    assert finding.gain.scope == "run"


def test_a_gain_between_steps_never_contradicts_its_cost(scenarios: Scenarios) -> None:
    for name, kind in (
        ("evaluation", "EVALUATION_COST"),
        ("checkpoint_inside_steps", "CHECKPOINT_COST"),
    ):
        analysis = analyse(scenarios[name])
        finding = found(analysis, kind)
        assert finding.gain is not None
        assert analysis.wall is not None
        wall_s = analysis.wall.total_ns / 1e9
        assert finding.gain.speedup == pytest.approx(wall_s / (wall_s - finding.cost_s))


def totals_of(new_rank: NewRank) -> Totals:
    return new_rank(10).totals


def test_what_wins_nothing_has_no_gain(new_rank: NewRank, new_run: NewRun) -> None:
    totals = totals_of(new_rank)
    assert without(totals, 0.0) is None
    assert without(totals, totals.wall_ns / 1e9) is None
    window = analyse(new_run(new_rank())).window
    assert replay(window, np.zeros((1, window.steady_steps))) is None


def test_scaled_seconds_have_a_gain_without_an_interval(new_rank: NewRank) -> None:
    gain = without(totals_of(new_rank), 0.01, basis="window")
    assert gain is not None
    assert gain.low is gain.high is None


def test_what_the_warm_up_waited_is_neither_in_the_share_nor_in_the_cost(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    waits = [300.0] * 5 + [4.0] * 95
    rank = new_rank(ms={**cpu_step, "input_wait": waits})
    analysis = analyse(new_run(rank))
    finding = found(analysis, "INPUT_BOUND")
    assert analysis.window.warmup_steps == 5
    assert finding.cost_s == pytest.approx(95 * 0.004, rel=0.02)
    assert finding.evidence["warmup_s"] == pytest.approx(1.5, rel=0.02)
    steady_s = float(analysis.window.host["step_time"][0, 5:].sum()) / 1e9
    assert finding.evidence["share"] == pytest.approx(finding.cost_s / steady_s)


def test_what_no_loader_can_do_without_is_not_won_back(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    setup = Setup(device_kind="cpu", cpu_count=8, loader=LoaderSetup(workers=2))
    rank = new_rank(setup=setup, ms={**cpu_step, "input_wait": 3.0})
    gain = found(analyse(new_run(rank)), "INPUT_BOUND").gain
    assert gain is not None
    assert gain.low is not None
    assert gain.speedup == pytest.approx(14.3 / 12.3, rel=0.005)  # a millisecond stays
    assert gain.low <= gain.speedup
    assert gain.low == pytest.approx(14.3 / 12.3, rel=0.01)


def test_the_residual_is_won_back_at_most(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    gain = found(analyse(new_run(new_rank(ms={**cpu_step, "other": 5.0}))), "RESIDUAL_HEAVY").gain
    assert gain is not None
    assert gain.low == 1.0


def epochs_of(
    new_rank: NewRank, cpu_step: dict[str, float], setup: Setup, making: float, fetch: float
) -> RankFacts:
    starts = range(1, 101, 10)
    return new_rank(
        setup=setup,
        flags={step: EPOCH_FIRST for step in starts},
        before_ms={step: {"epoch_boundary": making} for step in starts},
        ms={**cpu_step, "input_wait": [fetch if k % 10 == 0 else 0.5 for k in range(100)]},
        epochs=10,
    )


WORKERS = Setup(device_kind="cpu", cpu_count=8, loader=LoaderSetup(workers=4, persistent=False))
NO_WORKERS = Setup(device_kind="cpu", cpu_count=8, loader=LoaderSetup(workers=0))


def test_persistent_workers_win_what_making_them_anew_takes_and_no_more(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = epochs_of(new_rank, cpu_step, WORKERS, making=80.0, fetch=30.0)
    finding = found(analyse(new_run(rank)), "EPOCH_START_COST")
    wall_s = rank.totals.wall_ns / 1e9
    assert "persistent_workers=True" in finding.action
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(wall_s / (wall_s - 9 * 0.080), rel=1e-6)


def test_persistent_workers_are_not_the_answer_to_a_slow_first_batch(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = epochs_of(new_rank, cpu_step, WORKERS, making=2.0, fetch=300.0)
    finding = found(analyse(new_run(rank)), "EPOCH_START_COST")
    assert finding.action.startswith("The first batch of an epoch takes")
    assert "saves the 2.00 ms" in finding.action
    assert finding.gain is not None
    assert finding.gain.low == 1.0


def test_making_an_iterator_is_not_blamed_for_a_slow_first_batch(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = epochs_of(new_rank, cpu_step, NO_WORKERS, making=0.2, fetch=300.0)
    action = found(analyse(new_run(rank)), "EPOCH_START_COST").action
    assert "aking an iterator" not in action
    assert "persistent" not in action


def test_a_round_trip_holds_what_follows_the_last_step(new_rank: NewRank, new_run: NewRun) -> None:
    plain = analyse(new_run(new_rank())).throughput.steps_per_s
    rank = ending_with(new_rank(), "evaluation", 1_000_000_000)
    rank = ending_with(rank, "shutdown", 5_000_000_000)
    later = analyse(new_run(rank)).throughput.steps_per_s
    assert plain.round_trip is not None
    assert later.step == plain.step
    assert later.round_trip == pytest.approx(100 / (100 / plain.round_trip + 1.0))


@pytest.mark.parametrize(("wait", "points"), [("gradient_sync", 0.02), ("backward", 0.04)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_repaired_rank_wins_what_the_job_without_the_fault_would_take(
    ranks: int, wait: Wait, points: float
) -> None:
    """Where the others' waiting is hidden in their backward, so is the spread of their work."""

    def job(slow_ms: float, seed: int) -> dict[str, Floats]:
        factors = noise(np.random.default_rng(seed), (ranks, 200), cv=0.05, ar=0.3)
        own = own_work(ranks, 200, factors)
        own["input_wait"][1] += slow_ms
        return synchronise(own, wait=wait)

    def seconds(accounts: Mapping[str, Floats]) -> float:
        return float(sum(part[0].sum() for part in accounts.values()))

    slow = job(25.0, seed=1)
    gain = found(analyse(run_of(slow)), "INPUT_STRAGGLER").gain
    assert gain is not None
    assert gain.speedup == pytest.approx(seconds(slow) / seconds(job(0.0, seed=2)), abs=points)
    assert (gain.low == 1.0) == (wait == "backward")


def test_what_only_moves_the_wait_to_another_rank_wins_nothing() -> None:
    own = own_work(4, 100, noise(np.random.default_rng(1), (4, 100)))
    own["backward"][1] += 30.0
    own["backward"][2] += 30.0
    own["input_wait"][2] += 30.0
    window = analyse(run_of(synchronise(own))).window
    cause = np.zeros((4, window.steady_steps))
    cause[1] = 30e6
    gain = replay(window, cause)
    assert gain is None or gain.speedup < 1.01
