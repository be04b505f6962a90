"""Queues whose classes are the user's own, with habits that the standard library's have not."""

import queue
import threading
from collections.abc import Iterator

import pytest

from tests.labs.stagepipe import Patient
from traintrace.faults import FaultReporter, TraintraceWarning
from traintrace.stages.queues import follow_midway, follow_queue
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage


@pytest.fixture
def recorder() -> Iterator[StageRecorder]:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    yield recorder
    recorder.end()


def test_a_get_that_calls_itself_is_one(recorder: StageRecorder) -> None:
    source = follow_queue(Patient(), "in", recorder)
    with Stage(recorder, "work"):
        for item in range(3):
            source.put(item)
        threading.Timer(0.02, source.put, [3]).start()
        for _ in range(4):
            source.get()
    update = recorder.take()
    assert (update.queues[0].puts, update.queues[0].gets) == (4, 4)
    assert update.workers[0].account_ns["starved"] >= 10_000_000


class Helpful(queue.Queue[int]):
    """Has every attribute that it is asked for."""

    def __getattr__(self, name: str) -> str:
        return name


class Guarded:
    """Says what may be derived from it."""

    def __init_subclass__(cls, *, allowed: bool) -> None: ...
    def get(self) -> None: ...
    def put(self, item: object) -> None: ...


def test_a_class_that_answers_everything_is_followed(recorder: StageRecorder) -> None:
    source = follow_queue(Helpful(), "in", recorder)
    source.put(1)
    assert recorder.take().queues[0].puts == 1


def test_a_class_that_allows_no_other_is_left_alone(recorder: StageRecorder) -> None:
    guarded = Guarded()
    with pytest.warns(TraintraceWarning, match="Guarded cannot be followed"):
        assert follow_queue(guarded, "in", recorder) is guarded
    assert not recorder.take().queues


def test_a_simple_queue_of_a_run_that_ended_is_followed_by_the_next(
    recorder: StageRecorder,
) -> None:
    before = follow_queue(queue.SimpleQueue[int](), "in", recorder)
    before.put(1)
    recorder.end()
    later = StageRecorder(FaultReporter(raise_faults=True))
    after = follow_queue(before, "in", later)
    assert after.get() == 1
    (update,) = later.take().queues
    assert (update.puts, update.gets) == (0, 1)


def test_one_of_before_that_calls_itself_counts_once(recorder: StageRecorder) -> None:
    source = Patient()
    source.put(0)
    get = source.get
    follow_midway(source, "in", recorder, {})
    with Stage(recorder, "work"):
        for item in range(1, 5):
            source.put(item)
        assert [source.get(), get(), source.get(False), get(False), get()] == list(range(5))
    (record,) = recorder.take().queues
    assert (record.held, record.puts, record.gets) == (1, 4, 5)


class Eager(queue.Queue[int]):
    """Looks at once before it waits."""

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        if block:
            try:
                return self.get(False)
            except queue.Empty:
                pass
        return super().get(block, timeout)


def test_one_of_before_that_waits_after_it_has_called_itself_counts_once(
    recorder: StageRecorder,
) -> None:
    source = Eager()
    follow_midway(source, "in", recorder, {})
    for staged in (recorder, None):
        with Stage(staged, "work"):
            timer = threading.Timer(0.02, source.put, [1])
            timer.start()
            assert source.get() == 1
            timer.join()
    (record,) = recorder.take().queues
    assert (record.puts, record.gets) == (2, 2)
