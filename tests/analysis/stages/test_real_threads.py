"""Threads that really hand items to each other: recorded, stored, read and analysed."""

import queue
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stages.simulated import StagePlan
from benchmarks.stages.threads import run_threads
from traintrace import open_run
from traintrace_analysis.stages import StageAnalysis, analyse_stages
from traintrace_plain_torch import trace

MS = 1_000_000


def plan(*means_ms: int, count: int = 60, workers: tuple[int, ...] = ()) -> list[StagePlan]:
    """Make a line whose items take a little less and a little more by turns."""
    last = len(means_ms) - 1
    workers = workers or (1,) * len(means_ms)
    return [
        StagePlan(
            f"s{n}",
            [mean * workers[n] * MS * (9 + (item + n) % 3) // 10 for item in range(count)],
            workers[n],
            (f"q{n - 1}",) if n else (),
            (f"q{n}",) if n < last else (),
        )
        for n, mean in enumerate(means_ms)
    ]


def analysed(plans: list[StagePlan], capacity: int = 2) -> StageAnalysis:
    capacities: dict[str, int | None] = {f"q{n}": capacity for n in range(len(plans) - 1)}
    found = analyse_stages(run_threads(plans, capacities).facts.pipeline)
    assert found is not None
    return found


def test_a_slow_stage_of_threads_is_found() -> None:
    found = analysed(plan(8, 30, 8, count=40, workers=(1, 2, 1)))
    assert found.limiting is not None
    assert found.limiting.stage == "s1"
    assert found.limiting.confidence > 0.5
    assert found.withheld == ""
    for stage in found.stages:
        shares = (stage.busy_share, stage.starved_share, stage.blocked_share, stage.other_share)
        assert sum(shares) == pytest.approx(1.0)
        assert stage.services == 40
    for one in found.queues:
        assert (one.puts, one.gets, one.imbalance) == (40, 40, 0)


def test_doing_as_told_speeds_it_up_as_told() -> None:
    """The machine is noisy, so the closest of a few tries counts."""
    errors = []
    slow = plan(8, 30, 8, count=40, workers=(1, 2, 1))
    for _ in range(3):
        now = analysed(slow)
        then = analysed([slow[0], _with_workers(slow[1], 3), slow[2]])
        answer = now.what_if("worker", "s1")
        assert answer is not None
        assert answer.speedup > 1.1
        assert now.replayed is not None
        assert then.replayed is not None
        true = then.replayed.measured_per_s / now.replayed.measured_per_s
        errors.append(abs(true - answer.speedup))
        if errors[-1] <= 0.06:
            return
    raise AssertionError(errors)


def _with_workers(stage: StagePlan, workers: int) -> StagePlan:
    return StagePlan(stage.name, stage.times_ns, workers, stage.takes, stage.puts)


def test_a_pipeline_that_keeps_up_says_so() -> None:
    found = analysed(plan(5, 5, 20, count=40))
    assert found.limiting is not None
    assert found.limiting.is_last is True
    assert found.stage("s2").busy_share > found.stage("s1").busy_share


def test_loops_that_stop_at_a_sentinel_and_never_say_done_are_converted_right(
    tmp_path: Path,
) -> None:
    with trace(run_dir=tmp_path, print_report=False) as tracer:
        items: Any = tracer.queue(queue.Queue(4), "items")
        results: Any = tracer.queue(queue.Queue(4), "results")

        def produce() -> None:
            with tracer.stage("produce"):
                for number in range(40):
                    time.sleep(0.002)
                    items.put(number)
                for _ in range(2):
                    items.put(None)

        def work() -> None:
            with tracer.stage("work"):
                while (number := items.get()) is not None:
                    time.sleep(0.03)
                    results.put(number)
                results.put(None)

        threads = [threading.Thread(target=one) for one in (produce, work, work)]
        for thread in threads:
            thread.start()
        with tracer.stage("use"):
            left = 2
            while left:
                if results.get() is None:
                    left -= 1
                    continue
                time.sleep(0.001)
        for thread in threads:
            thread.join()
        folder = tracer.run_folder
    assert folder is not None
    rank = open_run(folder).facts([]).ranks[0]
    found = analyse_stages(rank.pipeline, rank.process)
    assert found is not None
    assert {stage.name: stage.workers for stage in found.stages} == {
        "produce": 1,
        "work": 2,
        "use": 1,
    }
    assert found.stage("work").per_item == pytest.approx(1.0, abs=0.1)
    assert found.limiting is not None
    assert found.limiting.stage == "work"
    assert found.last_stage == "use"
