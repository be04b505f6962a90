"""Threads and garbage collections in the very moment in which a session begins or ends."""

import gc
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import traintrace
from tests.labs.stagepipe import until
from tests.stages.sessions import end, record_of
from traintrace.faults import FaultReporter
from traintrace.stages import queues
from traintrace.stages.marks import GOT, START, queue_code
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage


def test_frames_of_who_begins_a_session_do_not_wait_for_a_garbage_collection(
    begin: Callable[[], StageRecorder],
) -> None:
    """A model on a device would stay there after `fit` in a process that does not collect garbage."""

    class Model:
        pass

    def fit() -> list[Any]:
        model = Model()
        items: Any = traintrace.queue(queue.Queue(), "items")
        waits = threading.Thread(target=items.get)
        waits.start()
        until(lambda: bool(items.not_empty._waiters))
        recorder = begin()
        items.put(1)
        waits.join()
        end(recorder)
        return [weakref.ref(model), weakref.ref(items)]

    gc.collect()
    gc.disable()
    try:
        assert [kept() for kept in fit()] == [None, None]
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_no_garbage_is_collected_while_it_looks_into_threads(
    begin: Callable[[], StageRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clearing a `threading.local` in the middle of it takes a lock of the interpreter that it holds: all hang."""
    frames, collecting = sys._current_frames, []

    def look() -> Any:
        collecting.append(gc.isenabled())
        return frames()

    monkeypatch.setattr(sys, "_current_frames", look)
    items: Any = traintrace.queue(queue.Queue(), "items")
    traintrace.queue(quiet := queue.Queue[int](), "quiet")
    waits = threading.Thread(target=items.get)
    waits.start()
    until(lambda: bool(items.not_empty._waiters))
    begin()
    assert collecting == [False]  # and for the one queue only in which a thread waits
    assert gc.isenabled()
    items.put(1)
    waits.join()
    assert quiet.empty()


def test_an_operation_that_begins_while_the_queue_gets_its_class_counts_once(
    begin: Callable[[], StageRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(queue: Any, *args: Any) -> Any:
        followed = attach_as_before(queue, *args)
        waits.start()
        until(lambda: bool(queue.not_empty._waiters))
        return followed

    attach_as_before = queues.attach
    monkeypatch.setattr(queues, "attach", attach)
    items: Any = traintrace.queue(queue.Queue(), "items")
    waits = threading.Thread(target=lambda: items.get())
    recorder = begin()
    items.put(1)
    waits.join()
    record = record_of(end(recorder), "items")
    assert (record.held, record.puts, record.gets) == (0, 1, 1)


def test_what_a_queue_held_is_what_it_holds_when_it_is_used_first(
    begin: Callable[[], StageRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of before moves items until its class is another one, however long that takes."""

    def attach(queue: Any, *args: Any) -> Any:
        for item in range(3):
            queue.put(item)  # by its methods of before
        followed = attach_as_before(queue, *args)
        queue.put(3)
        return followed

    attach_as_before = queues.attach
    monkeypatch.setattr(queues, "attach", attach)
    items: Any = traintrace.queue(queue.Queue(), "items")
    get = items.get
    recorder = begin()
    assert [get(), items.get()] == [0, 1]
    record = record_of(end(recorder), "items")
    assert (record.held, record.puts, record.gets) == (3, 1, 2)


@pytest.mark.parametrize("keeps", [False, True])
def test_busy_threads_over_many_sessions(begin: Callable[[], StageRecorder], keeps: bool) -> None:
    """The books of each agree with what the queue holds in the instant in which it ends."""

    def produce() -> None:
        put = items.put
        with traintrace.stage("produce"):
            while not over.is_set():
                (put if keeps else items.put)(1)
                sent.append(1)

    def consume() -> None:
        get = items.get
        with traintrace.stage("consume"):
            while (get if keeps else items.get)() is not None:
                taken.append(1)
                items.task_done()

    items: Any = traintrace.queue(queue.Queue(8), "items")
    over, sent, taken = threading.Event(), list[int](), list[int]()
    producers = [threading.Thread(target=produce) for _ in range(2)]
    consumers = [threading.Thread(target=consume) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (*producers, *consumers):
            thread.start()
        off = []
        for _ in range(60):
            recorder = begin()
            for _ in range(3):
                time.sleep(0.0005)
                recorder.take()
            with items.mutex:
                holds = len(items.queue)
                recorder.end()
            end(recorder)
            (book,) = recorder._books
            off.append(abs(book.held + book.puts - book.gets - holds) if book.wrapped else 0)
    finally:
        over.set()
        sys.setswitchinterval(interval)
        for thread in producers:
            thread.join()
        for _ in consumers:
            items.put(None)
        for thread in consumers:
            thread.join()
    # A followed method is counted when it has returned: each thread may be about to.
    assert max(off) <= (0 if keeps else 4)
    assert len(sent) == len(taken)
    assert type(items) is queue.Queue


def test_an_operation_whose_end_is_being_folded_has_ended() -> None:
    """By a method that was kept; the next one was taken for the same, which lost an item."""
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    with Stage(recorder, "work"):
        (worker,) = recorder.places.workers
        code = queue_code(0) + GOT
        worker.waits_for, worker.waits_since = code, recorder.now()
        assert worker.waits(code)
        worker.entries.extend((worker.waits_since, recorder.now(), code))
        assert not worker.waits(code)
        assert worker.cut()[2] == START  # and is not replayed yet
        assert not worker.waits(code)
    recorder.end()


def test_a_queue_that_gets_its_name_while_the_session_ends_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    methods = queues._methods

    def end_meanwhile(*args: Any) -> Any:
        recorder.end()
        return methods(*args)

    monkeypatch.setattr(queues, "_methods", end_meanwhile)
    items = queues.follow_queue(queue.Queue[int](), "items", recorder)
    assert type(items) is queue.Queue
