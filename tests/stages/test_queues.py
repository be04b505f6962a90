"""A followed queue is the user's queue: what it is, does and raises; and it is given back as it was."""

import asyncio
import copy
import gc
import multiprocessing
import pickle
import queue
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch.multiprocessing

import traintrace
from traintrace.faults import FaultReporter, TraintraceWarning
from traintrace.stages.queues import capacity_of, follow_queue, followed_as
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.simplequeue import FollowedSimpleQueue
from traintrace.stages.stage import Stage


class SlottedQueue:
    """A user's own, without a `__dict__` and without weak references."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[int] = []

    def get(self) -> int:
        return self.items.pop()

    def put(self, item: int) -> None:
        self.items.append(item)


class UsersQueue(queue.Queue[Any]):
    """A user's own that the standard library's calls."""

    def _put(self, item: Any) -> None:
        super()._put((item, "put"))


CHANGEABLE: dict[str, Callable[[], Any]] = {
    "Queue": queue.Queue,
    "LifoQueue": queue.LifoQueue,
    "PriorityQueue": lambda: queue.PriorityQueue(3),
    "a user's": UsersQueue,
    "one with slots": SlottedQueue,
    "multiprocessing": multiprocessing.Queue,
    "joinable": lambda: multiprocessing.JoinableQueue(5),
    "multiprocessing's simple": multiprocessing.SimpleQueue,
    "torch": torch.multiprocessing.get_context("fork").Queue,
}


@pytest.fixture
def recorder() -> Iterator[StageRecorder]:
    recorder = StageRecorder(FaultReporter(raise_faults=True))
    yield recorder
    recorder.end()


@pytest.mark.parametrize("make", CHANGEABLE.values(), ids=CHANGEABLE)
def test_it_is_the_same_object_of_a_class_called_the_same(
    make: Callable[[], Any], recorder: StageRecorder
) -> None:
    users = make()
    cls, attributes = type(users), dir(users)
    followed = follow_queue(users, "items", recorder)
    assert followed is users
    assert isinstance(followed, cls)
    assert [
        getattr(type(followed), name) for name in ("__name__", "__qualname__", "__module__")
    ] == [getattr(cls, name) for name in ("__name__", "__qualname__", "__module__")]
    assert set(dir(followed)) - set(attributes) <= {"__traintrace_queue__", "__slots__"}
    with Stage(recorder, "work"):
        followed.put(5)
        assert followed.get() in (5, (5, "put"))
    recorder.end()
    assert type(users) is cls
    assert dir(users) == attributes
    (record,) = recorder.take().queues
    assert (record.puts, record.gets) == (1, 1)
    assert record.producers == record.consumers == ["work"]


def test_a_simple_queue_shares_its_items_with_the_users(recorder: StageRecorder) -> None:
    users: queue.SimpleQueue[int] = queue.SimpleQueue()
    followed = follow_queue(users, "items", recorder)
    assert isinstance(followed, queue.SimpleQueue)
    assert type(followed).__name__ == "FollowedSimpleQueue"
    users.put(1)
    followed.put(2)
    assert (followed.qsize(), users.qsize(), followed.empty()) == (2, 2, False)
    assert (followed.get(), users.get()) == (1, 2)
    with pytest.raises(queue.Empty):
        followed.get_nowait()
    assert follow_queue(followed, "items", recorder) is followed
    recorder.end()
    followed.put(3)
    assert users.get_nowait() == 3
    (record,) = recorder.take().queues
    assert (record.puts, record.gets) == (1, 1)


def test_it_is_followed_once(recorder: StageRecorder) -> None:
    users: queue.Queue[int] = queue.Queue()
    follow_queue(users, "items", recorder)
    assert follow_queue(users, "items", recorder) is users
    with pytest.warns(TraintraceWarning, match="is followed already"):
        recorder.faults._seen.clear()
        follow_queue(users, "others", recorder)
    assert followed_as(users) == "items"
    users.put(1)
    recorder.end()
    assert type(users) is queue.Queue
    (record,) = recorder.take().queues
    assert (record.name, record.puts) == ("items", 1)


def test_several_queues_of_a_name_are_counted_together(recorder: StageRecorder) -> None:
    for size in (2, 3):
        items: queue.Queue[int] = queue.Queue(size)
        follow_queue(items, "items", recorder).put(1)
    (record,) = recorder.take().queues
    assert (record.capacity, record.puts, record.wrapped) == (5, 2, 2)


def test_what_is_no_queue_is_given_back_and_told(recorder: StageRecorder) -> None:
    with pytest.warns(TraintraceWarning, match="has no get and put"):
        assert follow_queue([1], "items", recorder) == [1]
    assert follow_queue(None, "items", recorder) is None


def test_without_a_session_nothing_happens() -> None:
    users: queue.Queue[int] = queue.Queue()
    assert traintrace.queue(users, "items") is users
    assert type(users) is queue.Queue
    with traintrace.stage("work") as stage:
        users.put(1)
        stage.done(items=2, tokens=3)


def test_a_queue_is_not_kept_alive(recorder: StageRecorder) -> None:
    for _ in range(50):
        followed: queue.Queue[int] = follow_queue(queue.Queue(), "reply", recorder)
        followed.put(1)
    last = weakref.ref(followed)
    del followed
    gc.collect()
    assert last() is None
    assert len(recorder.undo) == 0
    assert recorder.take().queues[0].puts == 50


def test_copies_and_pickles_are_as_without_it(recorder: StageRecorder) -> None:
    async def copied() -> tuple[int, int, str]:
        users: asyncio.Queue[int] = asyncio.Queue()
        follow_queue(users, "items", recorder)
        users.put_nowait(1)
        other = copy.deepcopy(users)
        other.put_nowait(2)
        unpickled = pickle.loads(pickle.dumps(users))
        assert type(unpickled) is asyncio.Queue
        return users.qsize(), other.qsize(), repr(other)[:6]

    assert asyncio.run(copied()) == (1, 2, "<Queue")
    for make in (queue.Queue, queue.SimpleQueue, multiprocessing.Queue):
        with pytest.raises((TypeError, RuntimeError)) as plain:
            pickle.dumps(make())
        with pytest.raises(plain.type, match=str(plain.value).replace("(", r"\(")[:40]):
            pickle.dumps(follow_queue(make(), "items", recorder))


def test_capacity() -> None:
    assert capacity_of(queue.Queue(3)) == 3
    assert capacity_of(queue.Queue()) is None
    assert capacity_of(queue.Queue(-1)) is None
    assert capacity_of(multiprocessing.Queue(7)) == 7
    assert capacity_of(multiprocessing.Queue()) is None
    assert capacity_of(asyncio.Queue(1.5)) == 2  # type: ignore[arg-type]
    assert capacity_of(multiprocessing.SimpleQueue()) is None


def test_what_a_method_raises_comes_through(recorder: StageRecorder) -> None:
    users: queue.Queue[int] = follow_queue(queue.Queue(1), "items", recorder)
    for staged in (recorder, None):
        with Stage(staged, "work"):
            with pytest.raises(queue.Empty):
                users.get(timeout=0.001)
            users.put(1)
            with pytest.raises(queue.Full):
                users.put_nowait(2)
            with pytest.raises(ValueError, match="non-negative"):
                users.put(2, timeout=-1)
            assert users.get(block=True, timeout=None) == 1
    (record,) = recorder.take().queues
    assert (record.puts, record.gets) == (2, 2)


def test_what_is_said_to_be_done_must_be_numbers(faults_are_reported: None) -> None:
    recorder = StageRecorder(FaultReporter())
    with Stage(recorder, "work") as stage:
        stage.done(items=torch.tensor(3))  # type: ignore[arg-type]
        stage.done(tokens="many")  # type: ignore[arg-type]
        stage.done(items=True)
    (worker,) = recorder.take().workers
    assert worker.items == 1
    assert len(recorder.faults.messages) == 2


def test_a_class_of_simple_queues_is_made_here_alone() -> None:
    assert issubclass(FollowedSimpleQueue, queue.SimpleQueue)
