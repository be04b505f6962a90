"""asyncio tasks as workers of stages: a task's waits are its own, whatever else its loop does."""

import asyncio
from pathlib import Path

import pytest

from tests.labs.stageclock import StageClock
from tests.labs.staged import queue_of, recorded, traced, workers_of
from traintrace.faults import FaultReporter
from traintrace.stages.queues import follow_queue
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage


def test_tasks_are_workers_and_wait_for_themselves(tmp_path: Path) -> None:
    async def run() -> None:
        items: asyncio.Queue[int | None] = tracer.queue(asyncio.Queue(2), "items")

        async def produce() -> None:
            with tracer.stage("produce"):
                for number in range(8):
                    await asyncio.sleep(0.004)
                    await items.put(number)
                for _ in range(2):
                    await items.put(None)

        async def consume() -> None:
            with tracer.stage("consume") as stage:
                while await items.get() is not None:
                    await asyncio.sleep(0.002)
                    stage.done(tokens=1)
                    items.task_done()

        await asyncio.gather(produce(), consume(), consume())

    with traced(tmp_path) as tracer:
        asyncio.run(run())
    pipeline = recorded(tracer)
    (producer,), consumers = workers_of(pipeline, "produce"), workers_of(pipeline, "consume")
    assert [worker.kind for worker in pipeline.workers] == ["task"] * 3
    assert producer.account_ns["busy"] >= 8 * 4_000_000
    assert sum(worker.items for worker in consumers) == 8
    assert sum(worker.account_ns["starved"] for worker in consumers) >= 8 * 2_000_000
    assert all(worker.unmeasured == "" for worker in pipeline.workers)
    record = queue_of(pipeline, "items")
    assert (record.puts, record.gets, record.capacity) == (10, 10, 2)
    assert (record.producers, record.consumers) == (["produce"], ["consume"])


def test_every_way_of_taking_and_putting_counts_once() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))

    async def run() -> None:
        items: asyncio.Queue[int] = follow_queue(asyncio.Queue(1), "items", recorder)
        for staged in (recorder, None):
            with Stage(staged, "work"):
                await items.put(1)
                await items.get()
                items.put_nowait(2)
                items.get_nowait()
                with pytest.raises(asyncio.QueueEmpty):
                    items.get_nowait()
                items.put_nowait(3)
                with pytest.raises(asyncio.QueueFull):
                    items.put_nowait(4)
                await asyncio.wait_for(items.get(), 5)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(items.get(), 0.005)

    asyncio.run(run())
    update = recorder.take()
    (record,) = update.queues
    assert (record.puts, record.gets) == (6, 6)
    (worker,) = update.workers
    assert worker.account_ns["starved"] >= 5_000_000
    assert worker.unmeasured == ""
    recorder.end()


def test_a_task_that_a_stages_task_starts_is_not_that_worker() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))

    async def run() -> None:
        items: asyncio.Queue[int] = follow_queue(asyncio.Queue(), "items", recorder)

        async def other() -> int:
            return await items.get()

        with Stage(recorder, "work") as stage:
            waiting = asyncio.create_task(other())
            await asyncio.sleep(0.01)
            items.put_nowait(1)
            await waiting
            await asyncio.to_thread(items.put_nowait, 2)
            stage.done()

    asyncio.run(run())
    update = recorder.take()
    (worker,) = update.workers
    assert worker.account_ns["starved"] == 0
    assert "a task that it started" in worker.unmeasured
    assert (update.queues[0].producers, update.queues[0].consumers) == (["work"], [])
    assert (update.queues[0].puts, update.queues[0].gets) == (2, 1)
    recorder.end()


def test_a_cancelled_wait_is_waiting_and_no_item() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))

    async def run() -> None:
        items: asyncio.Queue[int] = follow_queue(asyncio.Queue(), "items", recorder)

        async def wait() -> None:
            with Stage(recorder, "work"):
                await items.get()

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(run())
    (worker,) = recorder.take().workers
    assert worker.account_ns["starved"] >= 9_000_000
    assert worker.account_ns["busy"] < worker.account_ns["starved"]
    assert worker.items == 0
    recorder.end()


def test_a_threads_stage_around_a_loop_says_what_it_cannot_see() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))

    async def run() -> None:
        items: asyncio.Queue[int] = follow_queue(asyncio.Queue(), "items", recorder)
        await items.put(1)
        await items.get()

    with Stage(recorder, "work"):
        asyncio.run(run())
    update = recorder.take()
    assert "open the stage inside the task" in update.workers[0].unmeasured
    assert (update.queues[0].puts, update.queues[0].gets) == (1, 1)
    recorder.end()


class CoroutineQueue:
    """A user's own, with coroutines and nothing else."""

    async def get(self) -> int:
        """Give an item at once."""
        return 1

    async def put(self, item: int) -> None:
        """Take it at once."""


def test_a_users_queue_of_coroutines() -> None:
    clock = StageClock()
    recorder = clock.recorder

    async def run() -> None:
        items = follow_queue(CoroutineQueue(), "items", recorder)
        with Stage(recorder, "work"):
            await items.put(await items.get())
        await items.put(await items.get())

    asyncio.run(run())
    update = recorder.take()
    assert (update.queues[0].puts, update.queues[0].gets) == (2, 2)
    assert update.queues[0].producers == update.queues[0].consumers == ["work"]
    recorder.end()
