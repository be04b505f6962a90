"""The wall ledger, speed, replay, and statistics over ranks."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace.accounts import NAMES
from traintrace.facts import RankFacts, RunFacts, Scalar
from traintrace_analysis import analyse
from traintrace_analysis.replay import replay
from traintrace_analysis.wall import build_wall, group_sums

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Scenarios = Mapping[str, RunFacts]


def test_the_wall_ledger_sums_to_the_traced_span_exactly(scenarios: Scenarios) -> None:
    for name, run in scenarios.items():
        wall = analyse(run).wall
        if wall is None:
            assert name == "no_ranks"
            continue
        facts = next(r for r in run.ranks if (r.rank, r.attempt) == (wall.rank, wall.attempt))
        assert sum(wall.accounts_ns.values()) == wall.total_ns == facts.totals.wall_ns


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2**62)))
def test_any_ledger_sums_exactly_however_large(accounts: dict[str, int]) -> None:
    groups = group_sums(accounts)
    assert all(isinstance(value, int) for value in groups.values())
    compute = sum(accounts.get(name, 0) for name in ("forward", "backward", "optimizer"))
    assert groups.get("compute", 0) == compute


def test_accounts_that_did_not_occur_have_no_key(scenarios: Scenarios) -> None:
    wall = analyse(scenarios["plain_cpu"]).wall
    assert wall is not None
    assert "h2d" not in wall.accounts_ns
    assert "waiting" not in wall.groups_ns


def test_a_ledger_that_does_not_balance_is_reported(new_rank: NewRank, new_run: NewRun) -> None:
    rank = new_rank()
    rank = replace(rank, totals=replace(rank.totals, wall_ns=rank.totals.wall_ns + 5))
    assert any("the accounts sum to" in warning for warning in analyse(new_run(rank)).warnings)


def test_no_rank_has_no_ledger() -> None:
    assert build_wall((), None) is None


def test_speed_is_given_with_and_without_the_time_between_steps(scenarios: Scenarios) -> None:
    throughput = analyse(scenarios["evaluation"]).throughput
    assert throughput.steps_per_s.step == pytest.approx(1000 / 11.8, rel=0.01)
    assert throughput.steps_per_s.round_trip == pytest.approx(100 / (1.18 + 1.6), rel=0.01)
    assert throughput.samples_per_s.step == pytest.approx(32 * 1000 / 11.8, rel=0.01)
    assert throughput.tokens_per_s.step is None


def test_samples_of_the_ranks_add_up(new_rank: NewRank, new_run: NewRun) -> None:
    one = analyse(new_run(new_rank())).throughput.samples_per_s
    four = analyse(new_run(*[new_rank(rank=number) for number in range(4)])).throughput
    assert one.step is not None
    assert four.samples_per_s.step == pytest.approx(4 * one.step, rel=0.01)
    assert four.steps_per_s.step == pytest.approx(one.step / 32, rel=0.01)


def test_samples_unknown_on_one_rank_are_no_rate(new_rank: NewRank, new_run: NewRun) -> None:
    run = new_run(new_rank(rank=0), new_rank(rank=1, samples=None))
    assert analyse(run).throughput.samples_per_s.step is None


def test_the_worst_value_is_that_of_the_worst_rank(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    slow = {**cpu_step, "forward": 9.0}
    ranks = [new_rank(rank=number, ms=slow if number == 2 else cpu_step) for number in range(5)]
    forward = analyse(new_run(*ranks)).metrics["forward"]
    assert forward.worst_rank == 2
    assert forward.worst_ms == forward.by_rank[2]
    assert forward.skew == pytest.approx(1.25, rel=0.03)
    assert forward.representative_rank != 2
    assert forward.mean_ms == pytest.approx(forward.by_rank[forward.representative_rank or 0])


def test_a_single_rank_has_no_skew(scenarios: Scenarios) -> None:
    assert analyse(scenarios["plain_cpu"]).metrics["step_time"].skew is None


def test_one_slow_loader_among_many_is_not_called_input_bound(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    slow = {**cpu_step, "input_wait": 12.0}
    waits = {**cpu_step, "gradient_sync": 11.5}
    ranks = [new_rank(rank=number, ms=slow if number == 1 else waits) for number in range(4)]
    analysis = analyse(new_run(*ranks))
    assert all(finding.kind != "INPUT_BOUND" for finding in analysis.findings)
    assert analysis.verdict.kind == "CANNOT_TELL"


def test_a_rank_that_is_not_the_slowest_wins_nothing_by_being_faster(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    ranks = [
        new_rank(rank=0, ms={**cpu_step, "forward": 24.0}, jitter=0.0),
        new_rank(rank=1, ms={**cpu_step, "gradient_sync": 20.0}, jitter=0.0),
    ]
    window = analyse(new_run(*ranks)).window
    cause = np.zeros((2, window.steady_steps))
    cause[1] = 5e6
    faster_follower = replay(window, cause)
    faster_leader = replay(window, cause[::-1])
    assert faster_follower is None
    assert faster_leader is not None
    assert faster_leader.speedup == pytest.approx(31.8 / 26.8)


def test_few_independent_steps_give_a_gain_without_an_interval(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    analysis = analyse(new_run(new_rank(12, ms={**cpu_step, "input_wait": 40.0})))
    gain = analysis.verdict.gain
    assert gain is not None
    assert gain.low is gain.high is None


def test_the_series_has_at_most_two_hundred_points(new_rank: NewRank, new_run: NewRun) -> None:
    scalars = [Scalar(step, "train/loss", float(step)) for step in range(1, 1001)]
    series = analyse(new_run(new_rank(1000, scalars=scalars))).series
    assert len(series.step) == len(series.step_time_ms) == len(series.loss) == 200
    assert series.loss[0] == 3.0
    assert series.memory_bytes == (None,) * 200


def test_losses_that_are_not_finite_are_left_out_of_the_series(scenarios: Scenarios) -> None:
    loss = analyse(scenarios["odd_scalars"]).series.loss
    assert loss[:5] == (2.0, None, None, None, 1.0)
