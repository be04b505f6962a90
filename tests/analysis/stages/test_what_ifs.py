"""What the replay says that a change wins, against the same pipeline run with the change."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.stages import StagePlan, drawn_ms, run
from traintrace.readings import ProcessReading, SystemReading
from traintrace.stagefacts import Pipeline, StageWorker
from traintrace_analysis.stages import StageAnalysis, analyse_stages
from traintrace_analysis.stages.model import Change

CAPACITY = 2


def plans(
    means_ms: tuple[float, ...], workers: tuple[int, ...], seed: int, count: int = 500
) -> list[StagePlan]:
    rng = np.random.default_rng(seed)
    last = len(means_ms) - 1
    return [
        StagePlan(
            f"s{n}",
            drawn_ms(rng, mean * workers[n], count),
            workers[n],
            (f"q{n - 1}",) if n else (),
            (f"q{n}",) if n < last else (),
        )
        for n, mean in enumerate(means_ms)
    ]


def analysed(pipeline: Pipeline) -> StageAnalysis:
    found = analyse_stages(pipeline)
    assert found is not None
    return found


def throughput(stages: list[StagePlan], capacities: dict[str, int | None]) -> float:
    replayed = analysed(run(stages, capacities)).replayed
    assert replayed is not None
    return replayed.measured_per_s


def speedup(found: StageAnalysis, change: Change, target: str) -> float:
    answer = found.what_if(change, target)
    assert answer is not None
    return answer.speedup


LINES = [
    pytest.param((30.0, 34.0, 33.0), (1, 1, 1), id="near balance"),
    pytest.param((30.0, 34.0, 33.0), (1, 2, 1), id="near balance with workers"),
    pytest.param((30.0, 35.0, 25.0), (1, 1, 1), id="one leads a little"),
    pytest.param((10.0, 34.0, 20.0), (1, 3, 1), id="one leads by far"),
]


@pytest.mark.parametrize(("means", "workers"), LINES)
def test_a_what_if_is_what_the_change_does(
    means: tuple[float, ...], workers: tuple[int, ...]
) -> None:
    """The same services with the change, by the simulator that knows nothing of the replay: exact."""
    capacities: dict[str, int | None] = {f"q{n}": CAPACITY for n in range(len(means) - 1)}
    stages = plans(means, workers, seed=3)
    now, found = throughput(stages, capacities), analysed(run(stages, capacities))
    middle = stages[1]
    faster = replace(middle, times_ns=[round(0.8 * one) for one in middle.times_ns])
    true = throughput([stages[0], faster, stages[2]], capacities) / now
    assert speedup(found, "faster", "s1") == pytest.approx(true, abs=1e-6)
    more = replace(middle, workers=middle.workers + 1)
    true = throughput([stages[0], more, stages[2]], capacities) / now
    assert speedup(found, "worker", "s1") == pytest.approx(true, abs=1e-6)
    larger = found.what_if("buffer", "q1")
    assert larger is not None
    true = throughput(stages, {**capacities, "q1": round(larger.amount)}) / now
    assert larger.speedup == pytest.approx(true, abs=1e-6)


@pytest.mark.parametrize(("means", "workers"), LINES)
def test_a_what_if_holds_for_another_run_of_the_changed_pipeline(
    means: tuple[float, ...], workers: tuple[int, ...]
) -> None:
    capacities: dict[str, int | None] = {f"q{n}": CAPACITY for n in range(len(means) - 1)}
    found = analysed(run(plans(means, workers, 3, 1_500), capacities))
    now = throughput(plans(means, workers, 4, 1_500), capacities)
    other = plans(means, workers, 4, 1_500)
    middle = other[1]
    other[1] = replace(middle, times_ns=[round(0.8 * one) for one in middle.times_ns])
    true = throughput(other, capacities) / now
    assert speedup(found, "faster", "s1") == pytest.approx(true, abs=0.03)


def test_speeding_up_to_the_next_stage_wins_less_than_the_bound_where_buffers_are_short() -> None:
    capacities: dict[str, int | None] = {"q0": CAPACITY, "q1": CAPACITY}
    found = analysed(run(plans((30.0, 36.0, 30.0), (1, 1, 1), 3, 2_000), capacities))
    assert found.limiting is not None
    answer = found.what_if("to_next", found.limiting.stage)
    assert answer is not None
    assert found.limiting.lead is not None
    assert 1.03 < answer.speedup < 1.0 + found.limiting.lead
    assert answer.gain is not None
    assert answer.gain.low is not None
    assert answer.gain.high is not None
    assert answer.gain.low < answer.speedup < answer.gain.high


def test_stages_far_below_the_limit_and_queues_that_were_never_full_are_not_asked_about() -> None:
    capacities: dict[str, int | None] = {"q0": 2, "q1": 50}
    found = analysed(run(plans((30.0, 34.0, 10.0), (1, 1, 1), 3), capacities))
    assert {one.target for one in found.what_ifs} == {"s0", "s1", "q0"}


def with_hidden_time(pipeline: Pipeline, share: float) -> Pipeline:
    """Take work out of the services that the clock still saw: a lock that is no queue."""

    def less(worker: StageWorker) -> StageWorker:
        services = [
            replace(one, busy_ns=round(one.busy_ns * (1.0 - share))) for one in worker.services
        ]
        return replace(worker, services=services, busy_sum_ns=sum(one.busy_ns for one in services))

    return replace(pipeline, workers=[less(one) for one in pipeline.workers])


def test_what_ifs_are_withheld_if_the_replay_does_not_fit() -> None:
    pipeline = run(plans((30.0, 34.0, 20.0), (1, 1, 1), 3), {"q0": 2, "q1": 2})
    found = analysed(with_hidden_time(pipeline, 0.2))
    assert found.what_ifs == ()
    assert found.withheld.startswith("withheld: the replay runs 25 % faster than what was measured")
    assert found.limiting is not None
    assert found.limiting.stage == "s1"
    assert found.stage("s1").law_deviation == pytest.approx(0.2, abs=1e-6)
    within = analysed(with_hidden_time(pipeline, 0.03))
    assert within.withheld == ""
    assert within.what_ifs != ()


def readings(cores: float, allowed: float | None, count: int = 5) -> list[ProcessReading]:
    start = 1_700_000_000_000_000_000
    return [
        ProcessReading(start + n * 10**9, 10**9, cores, 0.0, 0, allowed) for n in range(1, count)
    ]


def test_workers_that_share_all_cores_make_gains_upper_bounds() -> None:
    pipeline = run(plans((10.0, 34.0, 30.0), (1, 4, 1), 3), {"q0": 2, "q1": 2})
    free = analyse_stages(pipeline, readings(2.0, 16.0))
    full = analyse_stages(pipeline, readings(2.0, 2.0))
    assert free is not None
    assert free.contention is None
    assert free.core_doubt == ""
    assert full is not None
    assert full.contention is not None
    assert full.contention.kind == "cores"
    assert all(one.gain.low == 1.0 for one in full.what_ifs if one.gain is not None)


def test_threads_that_use_one_core_together_may_take_turns() -> None:
    pipeline = run(plans((10.0, 34.0, 30.0), (1, 4, 1), 3), {"q0": 2, "q1": 2})
    turns = analyse_stages(pipeline, readings(1.0, 16.0))
    asleep = analyse_stages(pipeline, readings(0.2, 16.0))
    assert turns is not None
    assert turns.contention is not None
    assert turns.contention.kind == "interpreter"
    assert asleep is not None
    assert asleep.contention is None


def test_without_readings_it_is_not_known_whether_cores_suffice() -> None:
    found = analyse_stages(run(plans((10.0, 34.0, 30.0), (1, 1, 1), 3), {"q0": 2, "q1": 2}))
    assert found is not None
    assert found.core_doubt == "the cores in use were not read while the pipeline ran"


def test_a_node_whose_cores_others_use_makes_gains_upper_bounds() -> None:
    pipeline = run(plans((10.0, 34.0, 30.0), (1, 1, 1), 3), {"q0": 2, "q1": 2})
    start = 1_700_000_000_000_000_000
    node = [SystemReading(start + n * 10**9, 10**9, 7.8, 8) for n in range(1, 5)]
    found = analyse_stages(pipeline, readings(0.3, 8.0), node)
    assert found is not None
    assert found.contention is not None
    assert found.contention.kind == "node"
