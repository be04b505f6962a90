"""Stages and queues that are named before tracing begins, as under Lightning, transformers and `traintrace run`."""

import contextlib
import queue
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import traintrace
from tests.labs.staged import queue_of, recorded, traced, warnings_of, workers_of
from tests.labs.stagepipe import PAUSE_NS, PAUSE_S, Pipe, until
from traintrace.stagefacts import Pipeline, QueueRecord


def check_books(record: QueueRecord) -> None:
    """What was taken out was in it from the beginning, or was put in before, in their order."""
    assert 0 <= record.held + record.puts - record.gets
    assert len(record.put_ns) == record.puts
    for put, taken in zip(record.put_ns, record.get_ns[record.held :], strict=False):
        assert put <= taken


def of(pipeline: Pipeline, stage: str) -> Any:
    (worker,) = workers_of(pipeline, stage)
    return worker


def test_threads_and_queues_of_before_are_recorded_from_the_beginning_on(
    pipe: Pipe, tmp_path: Path
) -> None:
    pipe.pass_through(3)
    assert type(pipe.middle) is queue.Queue
    with traced(tmp_path) as tracer:
        pipe.pass_through(5)
        folder = tracer.run_folder
    pipe.pass_through(2)
    pipeline = recorded(tracer)
    (rank,) = traintrace.open_run(str(folder)).facts(["step"]).ranks
    for name in ("produce", "consume"):
        worker = of(pipeline, name)
        assert worker.kind == "thread"
        assert worker.unmeasured == ""
        assert worker.start_ns >= rank.totals.start_ns
    # The first item is not known to be a whole one.
    assert (of(pipeline, "produce").items, of(pipeline, "consume").items) == (4, 4)
    middle, out = queue_of(pipeline, "middle"), queue_of(pipeline, "out")
    assert (middle.puts, middle.gets, middle.capacity) == (5, 5, 2)
    assert (out.puts, out.gets, out.capacity) == (5, 5, None)
    assert (middle.producers, middle.consumers) == (["produce"], ["consume"])
    assert warnings_of(tracer) == []


def test_a_producer_that_is_blocked_when_tracing_begins(tmp_path: Path) -> None:
    """The usual state of a pipeline that was started before `fit`: its queue is full."""

    def produce() -> None:
        with traintrace.stage("produce"):
            for item in range(8):
                items.put(item)

    items: Any = traintrace.queue(queue.Queue(3), "items")
    producer = threading.Thread(target=produce)
    producer.start()
    until(lambda: bool(items.not_full._waiters))
    time.sleep(PAUSE_S)
    with traced(tmp_path) as tracer, traintrace.stage("train") as stage:
        time.sleep(PAUSE_S)
        for item in range(8):
            assert items.get() == item
            stage.done()
        producer.join()
    pipeline = recorded(tracer)
    record, worker = queue_of(pipeline, "items"), of(pipeline, "produce")
    assert (record.held, record.puts, record.gets, record.capacity) == (3, 5, 8, 3)
    check_books(record)
    assert worker.blocked_ns["items"] >= PAUSE_NS
    assert worker.account_ns["busy"] < PAUSE_NS
    assert worker.end_ns - worker.start_ns < 2 * PAUSE_NS + worker.account_ns["other"] + 10**9
    assert worker.items == 4  # the fifth put began before


def test_a_wait_that_lasts_as_long_as_the_trace_is_all_of_it(pipe: Pipe, tmp_path: Path) -> None:
    pipe.pass_through(1)
    with traced(tmp_path) as tracer:
        time.sleep(PAUSE_S)
    worker = of(recorded(tracer), "consume")
    assert worker.starved_ns["middle"] >= PAUSE_NS
    assert worker.account_ns["other"] < worker.account_ns["starved"]
    middle = queue_of(recorded(tracer), "middle")
    assert (middle.puts, middle.gets, middle.capacity) == (0, 0, 2)


def test_a_wait_of_before_that_is_given_up_is_no_item(tmp_path: Path) -> None:
    def consume() -> None:
        with traintrace.stage("consume"), contextlib.suppress(queue.Empty):
            while True:
                items.get(timeout=0.1)

    items: Any = traintrace.queue(queue.Queue(), "items")
    consumer = threading.Thread(target=consume)
    consumer.start()
    until(lambda: bool(items.not_empty._waiters))
    with traced(tmp_path) as tracer:
        consumer.join()
        items.put(1)
        assert items.get() == 1
    record = queue_of(recorded(tracer), "items")
    assert (record.puts, record.gets) == (1, 1)
    assert record.consumers == []


def test_a_thread_outside_stages_that_waits_when_tracing_begins_is_counted_too(
    tmp_path: Path,
) -> None:
    items: Any = traintrace.queue(queue.Queue(), "items")
    taker = threading.Thread(target=items.get)
    taker.start()
    until(lambda: bool(items.not_empty._waiters))
    with traced(tmp_path) as tracer:
        items.put(1)
        taker.join()
        items.put(2)
    record = queue_of(recorded(tracer), "items")
    assert (record.puts, record.gets) == (2, 1)


def test_a_second_run_takes_up_the_same_threads_and_queues(pipe: Pipe, tmp_path: Path) -> None:
    tracers = []
    for items in (3, 6):
        with traced(tmp_path / str(items)) as tracer:
            pipe.pass_through(items)
        assert type(pipe.middle) is queue.Queue
        pipe.pass_through(2)
        tracers.append(tracer)
    for items, tracer in zip((3, 6), tracers, strict=True):
        pipeline = recorded(tracer)
        assert of(pipeline, "consume").items == items - 1
        assert [one.worker for one in pipeline.workers] == [0, 0]
        record = queue_of(pipeline, "middle")
        assert (record.puts, record.gets, record.capacity) == (items, items, 2)
        check_books(record)


def test_a_queue_that_is_left_over_from_an_earlier_run_is_not_counted(tmp_path: Path) -> None:
    """A Trainer and its parts live in cycles until they are collected."""
    old: Any = traintrace.queue(queue.Queue(4), "items")
    for item in range(3):
        old.put(item)
    with traced(tmp_path / "1"):
        pass
    new: Any = traintrace.queue(queue.Queue(2), "items")
    with traced(tmp_path / "2") as tracer:
        new.put(1)
    record = queue_of(recorded(tracer), "items")
    assert (record.held, record.puts, record.capacity) == (0, 1, 2)
    assert old.qsize() == 3


def test_methods_that_a_thread_kept_from_before_are_seen_with_their_waits(tmp_path: Path) -> None:
    """`iter(q.get, None)` calls the method of before for ever; such a worker looked idle, and its queue overfull."""

    def work() -> None:
        with traintrace.stage("work"):
            for item in iter(source.get, None):
                time.sleep(0.01)
                put(item)

    source: Any = traintrace.queue(queue.Queue(), "source")
    sink: Any = traintrace.queue(queue.Queue(1), "sink")
    put = sink.put
    worker = threading.Thread(target=work)
    worker.start()
    source.put(0)
    assert sink.get() == 0
    with traced(tmp_path) as tracer:
        for item in range(5):
            time.sleep(PAUSE_S)
            source.put(item)
            assert sink.get() == item
        for item in range(3):
            source.put(item)
        until(lambda: bool(sink.not_full._waiters))
        time.sleep(PAUSE_S)
        for item in range(3):
            assert sink.get() == item
    source.put(None)
    worker.join()
    pipeline = recorded(tracer)
    ledger = of(pipeline, "work")
    assert ledger.items == 8
    assert ledger.account_ns["busy"] >= 8 * 10_000_000
    assert ledger.starved_ns["source"] >= 5 * (PAUSE_NS - 15_000_000)
    assert ledger.blocked_ns["sink"] >= PAUSE_NS
    assert ledger.account_ns["other"] < 10_000_000
    for name in ("source", "sink"):
        record = queue_of(pipeline, name)
        assert (record.puts, record.gets) == (8, 8)
        check_books(record)
    assert queue_of(pipeline, "source").consumers == ["work"]
    assert queue_of(pipeline, "sink").producers == ["work"]


def test_a_method_that_was_kept_and_one_that_was_not_count_once_each(tmp_path: Path) -> None:
    items: Any = traintrace.queue(queue.Queue(), "items")
    get, put, get_nowait = items.get, items.put, items.get_nowait
    with traced(tmp_path) as tracer, traintrace.stage("work"):
        for item in range(6):
            (put if item % 2 else items.put)(item)
        assert not items.empty()
        assert items.qsize() == 6
        taken = [method() for method in (get, items.get, items.get_nowait, get_nowait, get)]
        time.sleep(PAUSE_S)
        taken.append(get())
        with pytest.raises(queue.Empty):
            get(timeout=0.001)
        assert type(items).__name__ == "Queue"
    assert taken == list(range(6))
    record, worker = queue_of(recorded(tracer), "items"), of(recorded(tracer), "work")
    assert (record.puts, record.gets) == (6, 6)
    assert worker.account_ns["busy"] >= PAUSE_NS
    assert worker.items == 5
