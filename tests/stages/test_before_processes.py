"""Child processes of a process whose stages and queues were named before tracing begins."""

import multiprocessing
import queue
from pathlib import Path
from typing import Any

import pytest

import traintrace
from tests.labs import stagechildren as children_do
from tests.labs.staged import queue_of, recorded, traced, workers_of
from traintrace.stagefacts import Pipeline


def of(pipeline: Pipeline, stage: str) -> Any:
    (worker,) = workers_of(pipeline, stage)
    return worker


def test_blocks_of_the_parent_are_not_the_childs() -> None:
    context: Any = multiprocessing.get_context("fork")
    with traintrace.stage("work"):
        child = context.Process(target=children_do.exit_by_open_blocks)
        child.start()
        child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_later_work_on_queues_of_before(tmp_path: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    source, sink = (traintrace.queue(context.Queue(4), name) for name in ("source", "sink"))
    thread_queue: Any = traintrace.queue(queue.Queue(4), "unused")
    with traintrace.stage("parent") as stage, traced(tmp_path) as tracer:
        child = context.Process(target=children_do.double, args=(source, sink))
        child.start()
        source.put(3)
        assert sink.get() == 6
        source.put(None)
        child.join()
        stage.done()
        stage.done()
    pipeline = recorded(tracer)
    assert (of(pipeline, "double").items, of(pipeline, "parent").items) == (1, 1)
    assert (queue_of(pipeline, "source").puts, queue_of(pipeline, "source").gets) == (2, 2)
    assert queue_of(pipeline, "source").capacity == 4
    assert thread_queue.empty()


def test_a_child_of_before_finds_a_launched_run_by_the_stages_that_it_enters_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = multiprocessing.get_context("fork")
    begun = context.Event()
    monkeypatch.setenv("TRAINTRACE_RUN", str(tmp_path / "x"))
    child = context.Process(target=children_do.wait_and_work, args=(begun,))
    child.start()
    monkeypatch.delenv("TRAINTRACE_RUN")
    with traced(tmp_path, name="x") as tracer, traintrace.stage("parent"):
        begun.set()
        child.join()
    pipeline = recorded(tracer)
    assert [worker.stage for worker in pipeline.workers if worker.items] == ["late"]
    assert sorted(worker.stage for worker in pipeline.workers) == ["late", "parent"]
