"""Forks, joins, circles, conversions of items, and which stage limits."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.stages import StagePlan, drawn_ms, line, run
from traintrace.stagefacts import Pipeline
from traintrace_analysis.stages import StageAnalysis, analyse_stages


def analysed(pipeline: Pipeline) -> StageAnalysis:
    found = analyse_stages(pipeline)
    assert found is not None
    return found


def times(mean_ms: float, count: int = 300, seed: int = 0) -> list[int]:
    return drawn_ms(np.random.default_rng(seed), mean_ms, count)


def test_without_a_stage_there_is_nothing_to_analyse() -> None:
    assert analyse_stages(None) is None
    assert analyse_stages(Pipeline()) is None


def test_the_slowest_stage_of_a_line_is_named_with_its_lead() -> None:
    found = analysed(line(4.0, 8.0, 5.0, count=1_000))
    assert found.limiting is not None
    assert found.limiting.stage == "s1"
    assert found.limiting.runner_up == "s2"
    assert found.limiting.lead == pytest.approx(0.6, abs=0.1)
    assert found.limiting.confidence > 0.95
    assert found.limiting.corroborated is True
    assert found.limiting.is_last is False
    assert [stage.name for stage in found.stages] == ["s0", "s1", "s2"]


def test_workers_divide_the_demand_of_their_stage() -> None:
    plans = (
        StagePlan("load", times(6.0), 1, (), ("q",)),
        StagePlan("work", times(20.0), 4, ("q",), ("r",)),
        StagePlan("train", times(3.0), 1, ("r",)),
    )
    found = analysed(run(plans, {"q": 4, "r": 4}))
    assert found.stage("work").demand_ms == pytest.approx(5.0, rel=0.1)
    assert found.limiting is not None
    assert found.limiting.stage == "load"


def test_items_are_converted_along_the_line() -> None:
    # Eight samples make a batch, and a batch is cut into two parts.
    plans = (
        StagePlan("decode", times(1.0, 1_600), 1, (), ("samples",)),
        StagePlan("collate", times(2.0, 200), 1, ("samples",) * 8, ("parts", "parts")),
        StagePlan("train", times(3.5, 400), 1, ("parts",)),
    )
    found = analysed(run(plans, {"samples": 16, "parts": 4}))
    per_item = {stage.name: stage.per_item for stage in found.stages}
    assert per_item == pytest.approx({"decode": 4.0, "collate": 0.5, "train": 1.0})
    assert found.limiting is not None
    assert found.limiting.stage == "decode"
    assert found.replayed is not None
    assert found.replayed.deviation == pytest.approx(0.0, abs=1e-9)


def test_items_still_held_in_the_end_do_not_distort_demand() -> None:
    # The source made 300 items, the last stage stopped after 200: 100 lie in the queue.
    plans = (
        StagePlan("load", times(2.0, 300), 1, (), ("q",)),
        StagePlan("train", times(2.5, 200), 1, ("q",)),
    )
    found = analysed(run(plans, {"q": None}))
    assert found.queues[0].held == 100
    assert found.queues[0].doubt == ""
    assert found.stage("load").per_item == pytest.approx(1.0)
    assert found.limiting is not None
    assert found.limiting.stage == "train"


def forked() -> Pipeline:
    """One source feeds two stages by queues of their own, and a last one needs an item of each."""
    plans = (
        StagePlan("read", times(2.0), 1, (), ("images", "texts")),
        StagePlan("vision", times(12.0, seed=1), 2, ("images",), ("seen",)),
        StagePlan("text", times(3.0, seed=2), 1, ("texts",), ("heard",)),
        StagePlan("train", times(4.0, seed=3), 1, ("seen", "heard")),
    )
    return run(plans, {"images": 2, "texts": 2, "seen": 2, "heard": 2})


def test_a_fork_and_a_join_are_one_pipeline() -> None:
    found = analysed(forked())
    assert found.last_stage == "train"
    assert {stage.per_item for stage in found.stages} == {1.0}
    assert found.limiting is not None
    assert found.limiting.stage == "vision"
    assert found.replayed is not None
    assert found.replayed.deviation == pytest.approx(0.0, abs=1e-9)


def test_two_producers_of_one_queue_share_its_items() -> None:
    plans = (
        StagePlan("fresh", times(8.0, 150), 1, (), ("q",)),
        StagePlan("replayed", times(8.0, 150, 1), 1, (), ("q",)),
        StagePlan("train", times(3.0, 300, 2), 1, ("q",)),
    )
    found = analysed(run(plans, {"q": 4}))
    assert found.stage("fresh").per_item == pytest.approx(0.5)
    assert found.stage("fresh").demand_ms == pytest.approx(4.0, rel=0.1)


def test_stages_in_a_circle_are_not_separable() -> None:
    plans = (
        StagePlan("act", times(3.0), 1, ("weights",), ("rollouts",)),
        StagePlan("learn", times(5.0), 1, ("rollouts",), ("weights",)),
    )
    pipeline = run(plans, {"weights": 2, "rollouts": 2})
    primed = run(
        (StagePlan("prime", times(1.0, 40), 1, (), ("weights",)), *plans),
        {"weights": 50, "rollouts": 2},
    )
    for found in (analysed(primed), analysed(pipeline)):
        assert found.limiting is None
        assert found.not_separable.startswith("not separable: act and learn feed each other")
        assert found.what_ifs == ()
        assert found.withheld


def test_a_stage_that_no_queue_connects_is_listed_and_not_judged() -> None:
    slow = StagePlan("logging", times(50.0, 100), 1)
    plans = (
        StagePlan("load", times(2.0), 1, (), ("q",)),
        StagePlan("train", times(4.0, seed=1), 1, ("q",)),
        slow,
    )
    found = analysed(run(plans, {"q": 2}))
    assert found.limiting is not None
    assert found.limiting.stage == "train"
    assert found.stage("logging").demand_ms is None


def test_balanced_stages_are_called_so() -> None:
    found = analysed(line(5.0, 5.05, 4.0, count=2_000, variation=0.3))
    assert found.limiting is not None
    assert set(found.limiting.balanced) == {"s0", "s1"}


def test_few_services_name_no_stage() -> None:
    found = analysed(line(2.0, 9.0, 2.0, count=12))
    assert found.limiting is None
    assert "at least 20 are needed" in found.not_separable
    assert found.withheld == "not replayed: s0 did 12 services"


def test_a_queue_that_somebody_outside_fills_is_not_replayed() -> None:
    pipeline = line(4.0, 8.0, 5.0)
    outside = replace(pipeline.queues[0], producers=())
    found = analysed(
        replace(pipeline, workers=pipeline.workers[1:], queues=(outside, pipeline.queues[1]))
    )
    assert "no stage puts into q0" in found.withheld
    assert found.limiting is not None
    assert found.limiting.stage == "s1"


def test_what_one_stop_sign_a_worker_adds_is_no_conversion() -> None:
    # Each of two workers takes one more thing that tells it to stop.
    pipeline = line(4.0, 5.0, 3.0, workers=(1, 2, 1))
    first = pipeline.queues[0]
    last = first.get_ns[-1]
    stopped = replace(
        first, puts=first.puts + 2, gets=first.gets + 2, put_ns=[*first.put_ns, last, last], get_ns=[*first.get_ns, last, last]
    )  # fmt: skip
    found = analysed(replace(pipeline, queues=(stopped, pipeline.queues[1])))
    assert {round(stage.per_item or 0.0, 6) for stage in found.stages} == {1.0}
    assert found.replayed is not None
    assert abs(found.replayed.deviation) < 0.01


def test_only_the_latest_services_are_kept_of_a_long_run() -> None:
    pipeline = line(4.0, 8.0, 5.0, count=1_500)
    kept = 600
    workers = [replace(one, services=one.services[-kept:]) for one in pipeline.workers]
    queues = [replace(q, put_ns=q.put_ns[-kept:], get_ns=q.get_ns[-kept:]) for q in pipeline.queues]
    found = analysed(Pipeline(workers, queues))
    assert found.replayed is not None
    assert found.replayed.services >= kept - 10
    assert abs(found.replayed.deviation) < 0.02
    assert found.limiting is not None
    assert found.limiting.stage == "s1"
    for queue, whole in zip(found.queues, analysed(pipeline).queues, strict=True):
        assert queue.mean_items == pytest.approx(whole.mean_items or 0.0, abs=0.15)
        assert queue.doubt == ""


def test_a_first_service_that_compiles_names_no_stage() -> None:
    even = [10_000_000] * 100
    plans = (
        StagePlan("load", [8_000_000] * 100, 1, (), ("q",)),
        StagePlan("encode", [3_000_000_000, *[4_000_000] * 99], 1, ("q",), ("r",)),
        StagePlan("train", even, 1, ("r",)),
    )
    found = analysed(run(plans, {"q": 4, "r": 4}))
    # Over the whole run the middle stage took 34 ms an item; once it was warm, 4.
    assert found.stage("encode").demand_ms == pytest.approx(4.0)
    assert found.warmup_s == pytest.approx(3.0, abs=0.05)
    assert found.limiting is not None
    assert found.limiting.stage == "train"
    assert found.replayed is not None
    assert abs(found.replayed.deviation) < 0.01


def test_what_lies_in_a_queue_when_the_replay_begins_is_played_too() -> None:
    pipeline = line(3.0, 8.0, count=1_500, capacity=50)
    kept = 600
    workers = [replace(one, services=one.services[-kept:]) for one in pipeline.workers]
    found = analysed(replace(pipeline, workers=workers))
    assert found.replayed is not None
    # The source made the last 550 only after the replay begins.
    assert found.replayed.services >= kept - 3
    assert abs(found.replayed.deviation) < 0.01


def test_services_of_one_stage_that_reach_back_further_than_those_of_another_do_not_count() -> None:
    # The last stage was slow at first; of the source only the latest services are kept.
    plans = (
        StagePlan("load", [3_000_000] * 1_500, 1, (), ("q",)),
        StagePlan("train", [8_000_000] * 1_100 + [4_000_000] * 400, 1, ("q",)),
    )
    pipeline = run(plans, {"q": 2})
    first, last = pipeline.workers
    cut = [
        replace(first, services=first.services[-300:]),
        replace(last, services=last.services[-1_000:]),
    ]
    found = analysed(replace(pipeline, workers=cut))
    assert found.replayed is not None
    assert found.replayed.measured_per_s == pytest.approx(250.0, rel=0.01)
    assert abs(found.replayed.deviation) < 0.01
