"""Child processes of a traced process, forked and spawned, that end well, raise or are killed: seen through the run."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traintrace
from tests.labs import stagechildren as children_do
from tests.labs.staged import queue_of, recorded, traced, workers_of

METHODS = ("fork", "spawn")


class Children:
    """Two shared queues of a traced run and the children that work between them."""

    def __init__(self, tracer: Any, method: str) -> None:
        self.context: Any = multiprocessing.get_context(method)
        self.source = tracer.queue(self.context.Queue(8), "source")
        self.sink = tracer.queue(self.context.SimpleQueue(), "sink")
        self.started: list[Any] = []

    def start(self, target: Callable[..., None], *args: Any) -> None:
        child = self.context.Process(target=target, args=(self.source, self.sink, *args))
        child.start()
        self.started.append(child)

    def feed(self, items: int) -> list[int]:
        """Put items and a None for each child, and give what comes back."""
        for item in range(items):
            self.source.put(item)
        for _ in self.started:
            self.source.put(None)
        return [self.sink.get() for _ in range(items)]

    def join(self) -> list[int]:
        for child in self.started:
            child.join()
        return [child.exitcode for child in self.started]


@pytest.mark.parametrize("method", METHODS)
def test_children_are_workers_of_the_run(tmp_path: Path, method: str) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, method)
        for _ in range(2):
            children.start(children_do.double)
        assert sorted(children.feed(20)) == [2 * item for item in range(20)]
        assert children.join() == [0, 0]
        folder = tracer.run_folder
    pipeline = recorded(tracer)
    workers = workers_of(pipeline, "double")
    assert [(worker.worker, worker.kind) for worker in workers] == [(0, "process"), (1, "process")]
    assert sum(worker.items for worker in workers) == 20
    assert sum(worker.tokens or 0 for worker in workers) == sum(range(20))
    for worker in workers:
        assert worker.account_ns["busy"] >= worker.items * 3_000_000
        assert set(worker.starved_ns) <= {"source"}
    source, sink = queue_of(pipeline, "source"), queue_of(pipeline, "sink")
    assert (source.puts, source.gets, source.capacity) == (22, 22, 8)
    assert (sink.puts, sink.gets, sink.capacity) == (20, 20, None)
    assert (source.consumers, source.producers, sink.producers) == (["double"], [], ["double"])
    assert len(source.put_ns) == len(source.get_ns) == 22
    for taken, put in zip(source.get_ns, source.put_ns, strict=True):
        assert taken > put  # one clock for all processes
    assert folder is not None
    assert not (folder / "stages").exists()


@pytest.mark.parametrize("method", METHODS)
def test_what_children_do_outside_stages_is_counted(tmp_path: Path, method: str) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, method)
        children.start(children_do.pass_on)
        children.feed(5)
        children.join()
    pipeline = recorded(tracer)
    assert not pipeline.workers
    assert (queue_of(pipeline, "source").gets, queue_of(pipeline, "sink").puts) == (6, 5)


def test_a_spawned_child_of_a_launched_run_needs_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(number: int) -> None:
        child = spawning.Process(target=children_do.look_for_the_run, args=(number,))
        child.start()
        child.join()
        assert child.exitcode == 0

    spawning: Any = multiprocessing.get_context("spawn")
    with traced(tmp_path) as tracer:
        tracer.queue(spawning.Queue(), "unused")
        work(1)
        monkeypatch.setenv("TRAINTRACE_RUN", str(tracer.run_folder))
        work(2)
    monkeypatch.delenv("TRAINTRACE_RUN")
    (worker,) = workers_of(recorded(tracer), "alone")
    assert (worker.kind, worker.tokens) == ("process", 2)


def test_a_child_that_breaks_down_keeps_what_it_did(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, "fork")
        children.start(children_do.break_down)
        children.source.put(1)
        children.source.put(1)
        assert children.join() == [3]
    (worker,) = workers_of(recorded(tracer), "double")
    assert worker.account_ns["busy"] >= 20_000_000
    assert worker.items == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_child_that_is_killed_loses_no_more_than_a_second(tmp_path: Path, method: str) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, method)
        lived = children.context.Value("q", 0)
        children.start(children_do.be_killed, lived)
        for _ in range(20):
            children.source.put(1)
        assert children.join() == [-9]
        session = tracer._session
        assert session is not None
        offset_ns = session._anchor.offset_ns
    (worker,) = workers_of(recorded(tracer), "double")
    assert worker.start_ns < worker.end_ns
    assert lived.value + offset_ns - worker.end_ns < 1_000_000_000
    assert worker.items >= 5
    assert worker.service_count == len(worker.services) == worker.items


def test_a_grandchild_hands_on_too(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, "fork")
        children.start(children_do.have_a_child, "fork")
        children.feed(4)
        children.join()
    pipeline = recorded(tracer)
    assert [worker.items for worker in workers_of(pipeline, "double")] == [4]
    assert [worker.items for worker in workers_of(pipeline, "parent")] == [1]


def test_a_child_that_outlives_the_session_trains_on(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        children = Children(tracer, "fork")
        children.start(children_do.double)
        assert children.source.put(1) is None
        assert children.sink.get() == 2
        folder = tracer.run_folder
    assert folder is not None
    assert children.feed(3) == [0, 2, 4]
    assert children.join() == [0]
    assert not (folder / "stages").exists()
    assert queue_of(recorded(tracer), "source").puts == 1


def test_a_forked_child_without_stages_writes_nothing(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        tracer.queue(multiprocessing.get_context("fork").Queue(), "unused")
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.7,))
        child.start()
        child.join()
        assert tracer.run_folder is not None
        assert not list((tracer.run_folder / "stages").rglob("*.json"))


def test_a_stage_that_is_open_at_the_fork_is_the_parents_alone(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer, traintrace.stage("open") as stage:
        children = Children(tracer, "fork")
        children.start(children_do.pass_on)
        children.feed(3)
        children.join()
        stage.done()
    (worker,) = workers_of(recorded(tracer), "open")
    assert (worker.kind, worker.items) == ("thread", 1)
    source = queue_of(recorded(tracer), "source")
    assert (source.gets, source.consumers, source.producers) == (4, [], ["open"])


@pytest.mark.long  # it loads torch
def test_a_child_that_traces_itself_has_a_run_of_its_own(tmp_path: Path) -> None:
    with traced(tmp_path / "parent") as tracer:
        children = Children(tracer, "spawn")
        children.start(children_do.train_too, str(tmp_path / "child"))
        assert children.feed(3) == [0, 2, 4]
        assert children.join() == [0]
    (inner,) = traintrace.list_manifests(tmp_path / "child")[0]
    (rank,) = traintrace.open_run(tmp_path / "child" / inner.name).facts(["step"]).ranks
    assert rank.pipeline is not None
    (worker,) = rank.pipeline.workers
    assert worker.items == 3
    assert "another run" in worker.unmeasured
    assert not workers_of(recorded(tracer), "double")
