"""Tasks, nested blocks, and exceptions of before tracing begins; and that nothing is kept alive by it."""

import asyncio
import contextlib
import contextvars
import gc
import queue
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import traintrace
from tests.labs.staged import queue_of, recorded, traced, warnings_of, workers_of
from tests.labs.stagepipe import PAUSE_NS, PAUSE_S, Pipe, until
from traintrace.registry import REGISTRY
from traintrace.stagefacts import Pipeline
from traintrace.stages.blocks import CURRENT, current_block


def of(pipeline: Pipeline, stage: str) -> Any:
    (worker,) = workers_of(pipeline, stage)
    return worker


def test_what_a_tracer_named_is_taken_up_by_the_next(tmp_path: Path) -> None:
    items: Any = queue.Queue()
    simple: Any = queue.SimpleQueue()
    with traced(tmp_path / "1") as first:
        assert first.queue(items, "items") is items
        followed = first.queue(simple, "simple")
        block = first.stage("work")
        block.__enter__()
    with traced(tmp_path / "2") as second:
        items.put(1)
        followed.put(2)
        block.done()
        block.done()
    block.__exit__(None, None, None)
    pipeline = recorded(second)
    assert (of(pipeline, "work").items, queue_of(pipeline, "items").puts) == (1, 1)
    assert queue_of(pipeline, "simple").puts == 1
    assert simple.get() == 2
    assert warnings_of(second) == []


def test_tasks_of_a_loop_that_runs_already(tmp_path: Path) -> None:
    async def run() -> None:
        items: asyncio.Queue[int] = traintrace.queue(asyncio.Queue(1), "items")

        async def produce() -> None:
            with traintrace.stage("produce"):
                while not over.is_set():
                    await items.put(1)

        async def consume() -> None:
            with traintrace.stage("consume"):
                while True:
                    await items.get()
                    taken.append(1)
                    await asyncio.sleep(0.002)

        consumer = asyncio.create_task(consume())
        await produce()
        consumer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await consumer

    over, taken = threading.Event(), list[int]()
    loop = threading.Thread(target=asyncio.run, args=(run(),))
    loop.start()
    until(lambda: len(taken) > 3)
    with traced(tmp_path) as tracer:
        before = len(taken)
        until(lambda: len(taken) > before + 20)
    over.set()
    loop.join(5)
    pipeline = recorded(tracer)
    assert [worker.kind for worker in pipeline.workers] == ["task", "task"]
    produce, consume = of(pipeline, "produce"), of(pipeline, "consume")
    assert produce.account_ns["blocked"] > produce.account_ns["busy"]
    assert 15 <= consume.items <= 60
    record = queue_of(pipeline, "items")
    assert -1 <= record.puts - record.gets <= 1
    assert (record.producers, record.consumers) == (["produce"], ["consume"])
    assert (produce.unmeasured, consume.unmeasured) == ("", "")


def test_blocks_inside_each_other_and_one_that_is_left(tmp_path: Path) -> None:
    with traintrace.stage("left"):
        pass
    with contextlib.suppress(ZeroDivisionError), traintrace.stage("broken"):
        raise ZeroDivisionError
    with traintrace.stage("outer") as outer, traintrace.stage("inner") as inner:
        with traced(tmp_path) as tracer:
            time.sleep(PAUSE_S)
            inner.done()
            inner.done()
            inner.__exit__(None, None, None)
            outer.done()
            time.sleep(0.01)
            outer.done()
        inner.__enter__()
    assert current_block() is None
    pipeline = recorded(tracer)
    assert sorted(worker.stage for worker in pipeline.workers) == ["inner", "outer"]
    assert (of(pipeline, "inner").items, of(pipeline, "outer").items) == (1, 1)
    assert of(pipeline, "outer").account_ns["other"] >= PAUSE_NS
    assert of(pipeline, "outer").account_ns["busy"] >= 9_000_000


def test_an_exception_in_the_middle_of_the_trace_ends_the_worker(tmp_path: Path) -> None:
    def work() -> None:
        with pytest.raises(ZeroDivisionError), traintrace.stage("work"):
            entered.set()
            go_on.wait(5)
            raise ZeroDivisionError

    entered, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(5)
    with traced(tmp_path) as tracer:
        go_on.set()
        thread.join()
        time.sleep(PAUSE_S)
    worker = of(recorded(tracer), "work")
    assert worker.end_ns - worker.start_ns < PAUSE_NS
    assert not REGISTRY.named.blocks()


def test_a_stage_that_was_made_before_is_entered_later(tmp_path: Path) -> None:
    stage = traintrace.stage("work")
    for name in ("1", "2"):
        with traced(tmp_path / name) as tracer, stage:
            stage.done()
        assert of(recorded(tracer), "work").items == 1


def test_nothing_is_kept_alive() -> None:
    class Task:
        pass

    held = Task()
    items: Any = traintrace.queue(queue.Queue(), "items")
    items.put(held)

    async def wait(held: Any) -> None:
        with traintrace.stage("work"):
            await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    task = loop.create_task(wait(held))
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    assert len(REGISTRY.named.blocks()) == 1
    lives = [weakref.ref(one) for one in (held, items, task)]
    del held, items, task
    loop.close()
    gc.collect()
    assert [one() for one in lives] == [None, None, None]
    assert not REGISTRY.named


def test_a_block_is_forgotten_when_it_is_left_whoever_remembers_it() -> None:
    with traintrace.stage("work"):
        inherited = contextvars.copy_context()
        assert len(REGISTRY.named.blocks()) == 1
    assert not REGISTRY.named.blocks()
    assert CURRENT in inherited  # it is kept there
    assert inherited.run(current_block) is None


def test_a_run_that_has_ended_is_not_kept_alive_by_a_block(pipe: Pipe, tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        pipe.pass_through(1)
        recorder = weakref.ref(tracer._session.stages.recorder)  # type: ignore[union-attr]
    del tracer
    gc.collect()
    assert recorder() is None


def test_what_one_session_records_another_leaves_alone(tmp_path: Path) -> None:
    def inner() -> None:
        with traced(tmp_path / "inner") as tracer:
            items.put(1)
            stage.done()
        inners.append(tracer)

    inners: list[Any] = []
    items: Any = traintrace.queue(queue.Queue(), "items")
    with traintrace.stage("work") as stage, traced(tmp_path / "outer") as outer:
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
        for _ in range(3):
            stage.done()
    assert (of(recorded(outer), "work").items, queue_of(recorded(outer), "items").puts) == (2, 1)
    (rank,) = traintrace.open_run(inners[0].run_folder).facts(["step"]).ranks
    assert rank.pipeline is None
