"""The replay against a simulator written apart from it, and against queues whose throughput is known."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.labs.stages import StagePlan, drawn_ms, line, run
from traintrace.stagefacts import Pipeline
from traintrace_analysis.stages import StageAnalysis, analyse_stages
from traintrace_analysis.stages.simulation import Played, PlayedStage, moves, play, spread


def analysed(pipeline: Pipeline) -> StageAnalysis:
    found = analyse_stages(pipeline)
    assert found is not None
    return found


@st.composite
def lines(draw: st.DrawFn) -> Pipeline:
    """A line of up to four stages, with workers, capacities, batching and unbatching."""
    count = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    capacities = [draw(st.sampled_from((1, 2, 5, None))) for _ in range(count - 1)]
    plans, services, every = [], draw(st.integers(40, 120)), 1
    for n in range(count):
        services //= every
        twice = n > 0 and services >= 80 and draw(st.booleans())
        services = services // 2 if twice else services
        workers = draw(st.integers(1, 3))
        mean_ms = draw(st.sampled_from((1.0, 5.0, 5.2)))
        takes = (f"q{n - 1}",) * (2 if twice else 1) if n else ()
        every = draw(st.sampled_from((1, 1, 2))) if services >= 80 else 1
        puts = (f"q{n}",) if n < count - 1 else ()
        variation = draw(st.sampled_from((0.1, 0.6, 1.0)))
        times = drawn_ms(rng, mean_ms, services, variation)
        plans.append(StagePlan(f"s{n}", times, workers, takes, puts, every if puts else 1))
    return run(plans, {f"q{n}": capacity for n, capacity in enumerate(capacities)})


@settings(max_examples=60, deadline=None)
@given(pipeline=lines())
def test_the_replay_of_a_record_comes_to_what_was_recorded(pipeline: Pipeline) -> None:
    found = analysed(pipeline)
    assume(
        not found.warmup_s
    )  # a first service that is far the longest is left out, and not replayed
    assert found.replayed is not None, found.withheld
    assert abs(found.replayed.deviation) < 1e-9


@settings(max_examples=60, deadline=None)
@given(pipeline=lines())
def test_the_laws_hold(pipeline: Pipeline) -> None:
    found = analysed(pipeline)
    for stage in found.stages:
        shares = (stage.busy_share, stage.starved_share, stage.blocked_share, stage.other_share)
        assert sum(shares) == pytest.approx(1.0)
        assert stage.law_deviation == pytest.approx(0.0, abs=1e-9)
        if stage.service_ms is not None and not found.warmup_s:
            # The utilisation law: throughput times service time per worker, over the time of all workers.
            time_s = (
                sum(w.end_ns - w.start_ns for w in pipeline.workers if w.stage == stage.name) / 1e9
            )
            assert stage.busy_share == pytest.approx(
                stage.services * stage.service_ms / 1e3 / time_s
            )
    for queue in found.queues:
        assert queue.imbalance == 0
        assert queue.doubt == ""
        assert queue.held >= 0
        if queue.mean_items and queue.held == 0:
            assert queue.little_deviation == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(pipeline=lines())
def test_demand_bounds_throughput(pipeline: Pipeline) -> None:
    found = analysed(pipeline)
    assert found.last_stage is not None
    last = found.stage(found.last_stage)
    busiest = max(stage.demand_ms or 0.0 for stage in found.stages)
    # All of an item's work at the busiest stage lies in the span, but for what was never delivered.
    assert last.services * busiest / 1e3 <= found.span_s * 1.06


def exponential(capacity: int, stages: int, count: int = 60_000) -> float:
    """Replay a line of equal exponential stages; give its throughput in units of one stage's speed."""
    rng = np.random.default_rng(5)
    parts = [
        PlayedStage(
            service_ns=rng.exponential(1e6, count),
            takes=moves([(n - 1, 1.0)] if n else []),
            puts=moves([(n, 1.0)] if n < stages - 1 else []),
            starts_ns=(0.0,),
        )
        for n in range(stages)
    ]
    capacities = (float(capacity),) * (stages - 1)
    done = play(Played(tuple(parts), capacities, (0,) * (stages - 1), stages - 1))
    return float((len(done) - 1) / (done[-1] - done[0]) * 1e6)


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_two_exponential_stages_have_the_published_throughput(capacity: int) -> None:
    # Hunt 1956: (b + 2) / (b + 3) for two balanced exponential stages with room for b between them.
    assert exponential(capacity, 2) == pytest.approx((capacity + 2) / (capacity + 3), rel=0.015)


@pytest.mark.parametrize("capacity", [1, 3])
def test_three_exponential_stages_have_the_throughput_of_their_markov_chain(capacity: int) -> None:
    assert exponential(capacity, 3) == pytest.approx(markov_throughput(capacity), rel=0.015)


State = tuple[int, int, int, int, int]  # blocked first?, in queue, second, in queue, third
IDLE, WORKS, BLOCKED = 0, 1, 2


def markov_throughput(capacity: int) -> float:
    """Solve the chain of three equal exponential stages with blocking after service."""

    def settle(state: State) -> State:
        first, one, second, two, third = state
        while True:
            before = (first, one, second, two, third)
            if third == IDLE and two:
                third, two = WORKS, two - 1
            if second == BLOCKED and two < capacity:
                second, two = IDLE, two + 1
            if second == IDLE and one:
                second, one = WORKS, one - 1
            if first == BLOCKED and one < capacity:
                first, one = WORKS, one + 1
            if before == (first, one, second, two, third):
                return before

    def ends(state: State) -> Iterable[tuple[State, bool]]:
        first, one, second, two, third = state
        if first == WORKS:
            yield settle((BLOCKED, one, second, two, third)), False
        if second == WORKS:
            yield settle((first, one, BLOCKED, two, third)), False
        if third == WORKS:
            yield settle((first, one, second, two, IDLE)), True

    states: list[State] = [settle((WORKS, 0, IDLE, 0, IDLE))]
    for state in states:
        states += [new for new, _ in ends(state) if new not in states]
    rates = np.zeros((len(states), len(states)))
    leaving = np.zeros(len(states))
    for row, state in enumerate(states):
        for new, leaves in ends(state):
            rates[row, states.index(new)] += 1.0
            rates[row, row] -= 1.0
            leaving[row] += leaves
    system = np.vstack((rates.T, np.ones(len(states))))
    right = np.append(np.zeros(len(states)), 1.0)
    return float(np.linalg.lstsq(system, right, rcond=None)[0] @ leaving)


def test_the_chain_itself_knows_two_stages() -> None:
    assert markov_throughput(1) < 0.75  # less than two stages with the same room have


@pytest.mark.parametrize("ratio", [0.25, 1.0, 1.5, 3.0, 0.3337, 0.0173])
def test_a_ratio_is_spread_evenly(ratio: float) -> None:
    pattern = spread(ratio)
    assert np.mean(pattern) == pytest.approx(ratio, abs=1.0 / 1024)
    assert max(pattern) - min(pattern) <= 1


def test_even_stages_run_at_the_speed_of_the_slowest() -> None:
    found = analysed(line(2.0, 3.0, 1.0, variation=0.0))
    assert found.replayed is not None
    assert found.replayed.measured_per_s == pytest.approx(1000.0 / 3.0, rel=1e-6)
    assert found.limiting is not None
    assert found.limiting.stage == "s1"
    assert found.limiting.lead == pytest.approx(0.5)
