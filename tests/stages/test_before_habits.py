"""Queues and tasks with habits of their own that are taken up: nothing changes for them, and nothing is kept or lost."""

import asyncio
import contextvars
import gc
import inspect
import queue
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import traintrace
from tests.labs.stagepipe import Patient
from tests.stages.sessions import end, record_of
from traintrace.faults import FaultReporter
from traintrace.stages.blocks import Block
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage


def test_a_block_that_was_left_keeps_nothing_of_its_session() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    with Stage(recorder, "work"):
        inherited = contextvars.copy_context()
    recorder.end()
    lives = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert lives() is None
    assert inherited


def test_tasks_that_make_their_successors_do_not_remember_each_other() -> None:
    async def run() -> int:
        def go_on(left: int) -> None:
            tasks[:] = [asyncio.get_running_loop().create_task(work(left))]

        async def work(left: int) -> None:
            with traintrace.stage("work"):
                if left:
                    go_on(left - 1)

        tasks: list[asyncio.Task[None]] = []
        go_on(50)
        while not tasks[0].done():
            await asyncio.sleep(0)
        gc.collect()
        return sum(type(one) is Block for one in gc.get_objects())

    gc.collect()
    before = sum(type(one) is Block for one in gc.get_objects())
    assert asyncio.run(run()) <= before + 1


def test_a_task_that_uses_both_kinds_of_queues(begin: Callable[[], StageRecorder]) -> None:
    async def run() -> None:
        with traintrace.stage("work"):
            threads_take.put(0)
            tasks_take.put_nowait(0)
            assert tasks_take.get_nowait() == 0
            with pytest.raises(asyncio.QueueEmpty):
                tasks_take.get_nowait()
            await tasks_take.put(1)
            assert await tasks_take.get() == 1

    threads_take: Any = traintrace.queue(queue.Queue(), "both")
    tasks_take: Any = traintrace.queue(asyncio.Queue(), "both")
    recorder = begin()
    asyncio.run(run())
    record = record_of(end(recorder), "both")
    assert (record.puts, record.gets) == (3, 2)


class Discards(queue.Queue[int]):
    """Has since before Python 3.13 what `shutdown(immediate=True)` does."""

    def shutdown(self, immediate: bool = False) -> None:
        with self.mutex:
            while immediate and self._qsize():
                self._get()


def test_what_is_discarded_was_taken_by_nobody(begin: Callable[[], StageRecorder]) -> None:
    items = traintrace.queue(Discards(), "items")
    for item in range(3):
        items.put(item)
    recorder = begin()
    with traintrace.stage("train"):
        items.put(4)
        items.shutdown(immediate=True)
    update = end(recorder)
    record = record_of(update, "items")
    assert (record.held, record.puts, record.gets, list(record.consumers)) == (3, 1, 0, [])


class Latest(queue.Queue[int]):
    """Makes room by dropping what is oldest."""

    def _put(self, item: int) -> None:
        if self._qsize() == 2:
            self._get()
        super()._put(item)


def test_a_put_that_drops_items_is_a_put(begin: Callable[[], StageRecorder]) -> None:
    items = traintrace.queue(Latest(), "items")
    put = items.put
    recorder = begin()
    with traintrace.stage("produce"):
        for item in range(4):
            put(item)
    record = record_of(end(recorder), "items")
    assert (record.puts, record.gets, list(record.consumers)) == (4, 0, [])
    assert [items.get(), items.get()] == [2, 3]


class Own(queue.Queue[int]):
    """Has methods of its own, and of the standard library's class only what it holds."""

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        with self.mutex:
            return self.queue.popleft()


def test_a_queue_with_methods_of_its_own_is_counted_with_what_it_held(
    begin: Callable[[], StageRecorder],
) -> None:
    items = traintrace.queue(Own(4), "items")
    items.put(0)
    items.put(1)
    recorder = begin()
    assert [items.get(), items.get()] == [0, 1]
    record = record_of(end(recorder), "items")
    assert (record.wrapped, record.capacity) == (1, 4)
    assert (record.held, record.puts, record.gets) == (2, 0, 2)


def test_a_get_that_calls_itself_is_one_outside_stages_too(
    begin: Callable[[], StageRecorder],
) -> None:
    items = traintrace.queue(Patient(), "items")
    recorder = begin()
    for item in range(3):
        items.put(item)
        assert items.get() == item
    record = record_of(end(recorder), "items")
    assert (record.puts, record.gets) == (3, 3)


class Mixed:
    """Is fed by a callback and read by a task."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def put(self, item: int) -> None:
        self.items.append(item)

    async def get(self) -> int:
        return self.items.pop()


class MixedThread(queue.Queue[int]):
    async def get(self) -> int:  # type: ignore[override]
        return super().get()


class MixedTask(asyncio.Queue[int]):
    def put(self, item: int) -> None:  # type: ignore[override]
        self.put_nowait(item)


@pytest.mark.parametrize("kind", [Mixed, MixedThread, MixedTask])
def test_a_queue_of_which_only_one_method_is_awaited(
    begin: Callable[[], StageRecorder], kind: type
) -> None:
    items = traintrace.queue(kind(), "items")
    recorder = begin()
    items.put(1)
    assert inspect.iscoroutinefunction(items.get)
    assert not inspect.iscoroutinefunction(items.put)
    assert asyncio.run(asyncio.wait_for(items.get(), 5)) == 1
    record = record_of(end(recorder), "items")
    assert (record.puts, record.gets) == (1, 1)
