"""No second has two names: over runs with several causes at once, and pair by pair."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.lockstep import noise, own_work, run_of, synchronise
from tests.labs.machine import EVERY_NS, process_readings, system_readings
from tests.labs.mixtures import CAUSES, OF_RANKS, Mixture
from tests.labs.runs import Value, make_rank, make_run
from traintrace.facts import COMPILED, COMPILED_KNOWN, Event, LoaderSetup, Setup
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding

# What a healthy run spends on the same accounts, a little under each limit, may be named with a cause.
_HEALTHY: Final = 0.08
_NOISE: Final = 0.03


@st.composite
def mixtures(draw: st.DrawFn, most: int = 6) -> Mixture:
    ranks = draw(st.sampled_from((1, 2, 2, 4)))
    known = sorted(name for name in CAUSES if ranks > 1 or name not in OF_RANKS)
    causes = draw(st.sets(st.sampled_from(known), min_size=2, max_size=most))
    return Mixture(draw(st.integers(0, 10_000)), ranks, frozenset(causes))


def wall_s(analysis: Analysis) -> float:
    assert analysis.wall is not None
    return analysis.wall.total_ns / 1e9


def named(analysis: Analysis) -> list[Finding]:
    return [finding for finding in analysis.findings if finding.severity != "info"]


def costs(analysis: Analysis) -> dict[str, float]:
    """Give the seconds by kind, without those of few cores: these are part of what else takes long."""
    sums: dict[str, float] = {}
    for finding in named(analysis):
        if finding.kind != "CPU_OVERSUBSCRIBED":
            sums[finding.kind] = sums.get(finding.kind, 0.0) + finding.cost_s
    return sums


@settings(max_examples=25, deadline=None)
@given(mixture=mixtures())
def test_findings_name_no_more_seconds_than_there_are_nor_than_were_lost(mixture: Mixture) -> None:
    analysis = analyse(mixture.make())
    whole = wall_s(analysis)
    assert all(finding.cost_s <= whole for finding in named(analysis))
    assert sum(finding.cost_s for finding in named(analysis)) <= whole
    healthy = wall_s(analyse(Mixture(mixture.seed, mixture.ranks, frozenset()).make()))
    assert sum(costs(analysis).values()) <= whole - healthy + _HEALTHY * whole, costs(analysis)


@settings(max_examples=15, deadline=None)
@given(mixture=mixtures(most=4), data=st.data())
def test_a_cause_that_goes_takes_no_more_seconds_with_it_than_it_took_of_the_run(
    mixture: Mixture, data: st.DataObject
) -> None:
    cause = data.draw(st.sampled_from(sorted(mixture.causes)))
    before, after = analyse(mixture.make()), analyse(mixture.without(cause).make())
    still = costs(after)
    kept = sum(cost for kind, cost in costs(before).items() if kind in still)
    freed = wall_s(before) - wall_s(after)
    assert kept - freed <= sum(still.values()) + _NOISE * wall_s(before), (costs(before), still)


@pytest.mark.parametrize("culprit", [0, 1])
@pytest.mark.parametrize("account", ["gap", "input_wait", "h2d", "other", "optimizer"])
def test_of_two_ranks_the_slow_one_is_named_and_not_its_account_as_well(
    account: str, culprit: int
) -> None:
    """One of the two is the representative rank, whose accounts the other families judge."""
    own = own_work(2, 120, noise(np.random.default_rng(3), (2, 120), cv=0.03, ar=0.3))
    own["gap"] = np.full((2, 120), 0.2)
    own["h2d"] = np.full((2, 120), 0.5)
    own[account][culprit] += 30.0
    found = named(analyse(run_of(synchronise(own))))
    assert [(one.family, one.ranks) for one in found] == [("ranks", (culprit,))]
    assert found[0].cost_s == pytest.approx(0.030 * 120, rel=0.1)


def test_of_ranks_that_take_turns_the_account_is_not_named_as_well() -> None:
    own = own_work(3, 120, noise(np.random.default_rng(4), (3, 120), cv=0.03, ar=0.3))
    own["input_wait"][np.arange(120) % 3, np.arange(120)] += 60.0
    found = named(analyse(run_of(synchronise(own))))
    assert {one.kind for one in found} == {"ROTATING_STRAGGLER"}


@pytest.mark.parametrize("cause", ["gc", "compilation"])
@pytest.mark.parametrize("account", ["input_wait", "optimizer", "other", "backward"])
def test_what_pauses_take_is_theirs_and_not_that_of_the_account_they_lie_in(
    account: str, cause: str
) -> None:
    usual = {"input_wait": 1.0, "forward": 20.0, "backward": 36.0, "optimizer": 5.0, "other": 2.0}
    places = range(30, 200, 4)
    added = [800.0 if index in places else 0.0 for index in range(200)]
    ms: dict[str, Value] = {**usual, account: [usual[account] + pause for pause in added]}
    gc = cause == "gc"
    flags = {
        step + 1: COMPILED_KNOWN | (0 if gc or step not in places else COMPILED)
        for step in range(200)
    }
    rank = make_rank(200, ms=ms, flags=flags, gc_ms=added if gc else None, jitter=0.03)
    opened = rank.columns["open_ns"]
    events = [
        Event((opened[index] or 0) + 1, cause, index + 1, f"0/{index}", 800_000_000)
        for index in places
    ]
    with_events = make_rank(
        200, ms=ms, flags=flags, gc_ms=added if gc else None, jitter=0.03, events=events
    )
    found = named(analyse(make_run(with_events)))
    assert [one.kind for one in found] == ["GC_PAUSES" if gc else "RECOMPILES"]


def oversubscribed(ms: dict[str, float], share: float, workers: int) -> Analysis:
    rank = make_rank(
        40,
        ms=ms,
        setup=Setup(device_kind="cpu", cpu_count=2, omp_threads=2, loader=LoaderSetup(workers=workers)),
        process=process_readings(
            60, allowed_cores=2.0, cpu_cores=1.3, workers=workers, run_queue_ns=round(share * EVERY_NS)
        ),
        system=system_readings(60, cpu_cores=2.0, cpu_count=2),
    )  # fmt: skip
    return analyse(make_run(rank))


def _one(findings: Sequence[Finding], kind: str) -> Finding:
    return next(finding for finding in findings if finding.kind == kind)


def test_without_loader_workers_the_wait_for_a_core_lies_in_the_wait_for_data_as_well() -> None:
    step = {"input_wait": 50.0, "forward": 15.0, "backward": 15.0, "optimizer": 3.0, "other": 1.0}
    analysis = oversubscribed(step, 0.6, workers=0)
    found = named(analysis)
    few, data = _one(found, "CPU_OVERSUBSCRIBED"), _one(found, "INPUT_BOUND")
    assert sum(one.cost_s for one in found) <= wall_s(analysis)
    assert few.cost_s + data.cost_s == pytest.approx(
        data.cost_s + 0.6 * (wall_s(analysis) - data.cost_s), rel=0.05
    )
    assert "lie in what INPUT_BOUND names and are counted there" in few.why
    assert isinstance(elsewhere := few.evidence["named_elsewhere_s"], float)
    assert elsewhere == pytest.approx(0.6 * data.cost_s, rel=0.05)


def test_a_loader_with_workers_lets_the_training_thread_sleep_so_the_waits_lie_apart() -> None:
    step = {"input_wait": 50.0, "forward": 15.0, "backward": 15.0, "optimizer": 3.0, "other": 1.0}
    few = _one(named(oversubscribed(step, 0.2, workers=2)), "CPU_OVERSUBSCRIBED")
    assert few.evidence["named_elsewhere_s"] == 0.0
    assert "counted there" not in few.why
