"""What must hold for any job: names of ranks, units of time and a wait that all share decide nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.lockstep import Floats, Wait, noise, own_work, synchronise, window_of
from traintrace_analysis.ranks import Comparison, compare_ranks
from traintrace_analysis.ranks.departures import median_of_others
from traintrace_analysis.step_window import Ints

ACCOUNTS = ("input_wait", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Job:
    seed: int
    ranks: int
    slow: int
    account: str
    excess_ms: float

    def own(self) -> dict[str, Floats]:
        factors = noise(np.random.default_rng(self.seed), (self.ranks, 60), cv=0.04, ar=0.3)
        own = own_work(self.ranks, 60, factors)
        own[self.account][self.slow] += self.excess_ms
        return own


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    ranks = draw(st.integers(2, 9))
    return Job(
        seed=draw(st.integers(0, 10_000)),
        ranks=ranks,
        slow=draw(st.integers(0, ranks - 1)),
        account=draw(st.sampled_from(ACCOUNTS)),
        excess_ms=draw(st.sampled_from((0.0, 2.0, 10.0, 40.0))),
    )


def compared(accounts: Mapping[str, Floats]) -> Comparison:
    comparison = compare_ranks(window_of(accounts))
    assert comparison is not None
    return comparison


def answer(comparison: Comparison, names: Ints | None = None) -> list[tuple[object, ...]]:
    """Give who is blamed for what and how much, with the rows under other names if given."""
    return sorted(
        (
            one.cause.kind,
            one.cause.account,
            sorted(int(row if names is None else names[row]) for row in one.rows),
        )
        for one in comparison.stragglers
    )


def costs(comparison: Comparison) -> list[float]:
    return sorted(one.billed_ns for one in comparison.stragglers)


@settings(max_examples=40, deadline=None)
@given(job=jobs(), wait=st.sampled_from(("gradient_sync", "backward")))
def test_other_names_for_the_ranks_give_the_same_answer_under_those_names(
    job: Job, wait: Wait
) -> None:
    accounts = synchronise(job.own(), wait=wait)
    places = np.random.default_rng(job.seed).permutation(job.ranks)
    moved = compared({name: part[places] for name, part in accounts.items()})
    plain = compared(accounts)
    assert answer(moved, places) == answer(plain)
    assert costs(moved) == pytest.approx(costs(plain))
    assert moved.rotation.rotates == plain.rotation.rotates


@settings(max_examples=40, deadline=None)
@given(job=jobs(), factor=st.sampled_from((0.25, 3.0, 40.0)))
def test_a_clock_that_runs_faster_scales_costs_and_changes_no_blame(
    job: Job, factor: float
) -> None:
    accounts = synchronise(job.own())
    plain = compared(accounts)
    scaled = compared({name: factor * part for name, part in accounts.items()})
    assert answer(scaled) == answer(plain)
    assert costs(scaled) == pytest.approx([factor * cost for cost in costs(plain)], rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(job=jobs(), wait_ms=st.floats(0.0, 20.0))
def test_a_wait_that_all_ranks_share_moves_no_blame(job: Job, wait_ms: float) -> None:
    plain = compared(synchronise(job.own()))
    waiting = compared(synchronise(job.own(), link_ms=1.0 + wait_ms))
    named = {row for one in plain.stragglers for row in one.rows}
    still = {row for one in waiting.stragglers for row in one.rows}
    # A longer step makes the same excess a smaller share of it, so blame may end but never move.
    assert still <= named
    if job.excess_ms == 40.0:
        assert still == named == {job.slow}


@given(
    rows=st.integers(2, 9), count=st.integers(1, 4), seed=st.integers(0, 1000), ties=st.booleans()
)
def test_the_median_of_the_others_leaves_out_the_rank_itself(
    rows: int, count: int, seed: int, ties: bool
) -> None:
    values = np.random.default_rng(seed).normal(size=(rows, count))
    values = np.rint(values) if ties else values
    expected = [np.median(np.delete(values, row, axis=0), axis=0) for row in range(rows)]
    assert median_of_others(values) == pytest.approx(np.array(expected))
