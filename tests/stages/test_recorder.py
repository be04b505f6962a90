"""What a process holds of its stages: bounded, exact in its counts, safe to be used by many threads."""

import contextvars
import queue
import threading
import time

import pytest

from tests.labs.stageclock import StageClock
from traintrace.faults import FaultReporter
from traintrace.stagefacts import KEPT
from traintrace.stages.blocks import Block
from traintrace.stages.places import MAX_WORKERS
from traintrace.stages.queuebook import QueueBook
from traintrace.stages.queues import follow_queue
from traintrace.stages.recorder import FULL, MAX_QUEUES, StageRecorder
from traintrace.stages.stage import Stage


def test_memory_is_bounded_while_nobody_takes_what_was_recorded() -> None:
    clock = StageClock()
    source, outside = clock.queue("in"), clock.queue("out")
    operations = 4 * FULL
    with clock.stage():
        for _ in range(operations):
            source.get(3)
            clock.pass_by(2)
    for _ in range(operations):
        outside.put(1)
    worker = clock.recorder.places.workers[0]
    assert len(worker.entries) <= FULL + 3
    assert len(clock.recorder.outside) <= FULL + 2
    update = clock.update()
    assert update.workers[0].account_ns["starved"] == 3 * operations
    assert update.workers[0].items == operations - 1
    assert len(update.workers[0].services) == KEPT
    taken, put = update.queues
    assert (taken.gets, len(taken.get_ns), put.puts, len(put.put_ns)) == (
        operations,
        KEPT,
        operations,
        KEPT,
    )


def test_threads_of_a_stage_are_workers_of_their_own_and_sum_exactly() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    source: queue.Queue[int | None] = follow_queue(queue.Queue(2), "in", recorder)
    together = threading.Barrier(3)

    def work() -> None:
        with Stage(recorder, "work") as stage:
            together.wait()
            while source.get() is not None:
                stage.done()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    together.wait()
    updates = []
    for item in range(2_000):
        source.put(item)
        if item % 400 == 0:
            updates.append(recorder.take())
    for _ in threads:
        source.put(None)
    for thread in threads:
        thread.join()
    workers = recorder.take().workers
    assert [worker.stage for worker in workers] == ["work", "work"]
    assert sum(worker.items for worker in workers) == 2_000
    for worker in workers:
        assert sum(worker.account_ns.values()) == worker.end_ns - worker.start_ns
        assert worker.unmeasured == ""
    recorder.end()


def test_another_threads_queue_operations_are_not_the_workers() -> None:
    clock = StageClock()
    source = clock.queue("in")
    with clock.stage():
        thread = threading.Thread(target=lambda: source.put(400))
        thread.start()
        thread.join()
    update = clock.update()
    assert update.workers[0].account_ns["blocked"] == 0
    assert update.queues[0].puts == 1
    assert update.queues[0].producers == []


def test_a_thread_that_inherits_the_context_of_a_worker_is_not_that_worker() -> None:
    clock = StageClock()
    source = clock.queue("in")
    with clock.stage() as stage:

        def help_out() -> None:
            source.put(400)
            stage.done()

        inherited = contextvars.copy_context()
        thread = threading.Thread(target=inherited.run, args=(help_out,))
        thread.start()
        thread.join()
    update = clock.update()
    assert (update.workers[0].account_ns["blocked"], update.workers[0].items) == (0, 0)
    assert (update.queues[0].puts, update.queues[0].producers) == (1, [])


def test_workers_and_queues_are_bounded(faults_are_reported: None) -> None:
    recorder = StageRecorder(FaultReporter())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("traintrace.stages.places.MAX_WORKERS", 2)
        patch.setattr("traintrace.stages.recorder.MAX_QUEUES", 1)
        with Stage(recorder, "a"), Stage(recorder, "b"), Stage(recorder, "c") as third:
            third.done()
        assert recorder.number_of_queue("one") == 0
        assert recorder.number_of_queue("two") is None
    assert [worker.stage for worker in recorder.take().workers] == ["a", "b"]
    assert len(recorder.faults.messages) == 2
    assert MAX_WORKERS >= 100
    assert MAX_QUEUES >= 100


def test_what_is_written_after_the_end_is_left_out() -> None:
    clock = StageClock()
    with clock.stage() as stage:
        clock.pass_by(10)
        stage.done()
        worker = clock.recorder.places.workers[0]
        clock.recorder.end()
        clock.pass_by(10)
        worker.mark(4)  # a thread that was in the middle of it
        stage.done()
    (update,) = clock.update().workers
    assert (update.items, update.account_ns["busy"]) == (1, 10)
    with clock.stage() as late:
        late.done()
    assert not clock.update().workers


def test_no_operation_waits_for_who_takes_what_was_recorded() -> None:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    with recorder._taking, recorder._noting, Stage(recorder, "work") as stage:
        began = time.perf_counter()
        for _ in range(FULL):
            stage.done()
        assert time.perf_counter() - began < 20
    assert recorder.take().workers[0].items == FULL


def test_a_full_journal_is_folded_alone() -> None:
    """A training thread must not fold what twenty others wrote: that took seconds."""
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    block = Block("other")
    recorder.enter(block)
    other = block.worker
    assert other is not None
    other.entries.extend((1, 1, 4) * FULL)
    with Stage(recorder, "work") as stage:
        for _ in range(FULL):
            stage.done()
    assert len(other.entries) >= 3 * FULL
    assert recorder.take().workers[1].items == FULL


def test_a_lock_that_an_interrupt_left_behind_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("traintrace.stages.held.PATIENCE_S", 0.01)
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    with Stage(recorder, "first") as first, Stage(recorder, "second") as second:
        second.done()
    del first
    recorder.places.workers[0].folding.acquire()
    assert [worker.stage for worker in recorder.take().workers] == ["second"]


def test_the_latest_moments_of_all_workers_are_kept() -> None:
    """Not those of the worker that was folded last: a queue held fewer than no items by them."""
    book = QueueBook("in")
    for worker in range(4):
        book.note(True, range(worker, 4 * KEPT, 4), "work")
    taken = book.take()
    assert taken is not None
    assert (taken.puts, list(taken.put_ns)) == (4 * KEPT, list(range(3 * KEPT, 4 * KEPT)))
