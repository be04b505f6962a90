"""A queue that is followed from the middle of its life on: it holds items, threads wait in it, and kept its methods.

`iter(q.get, None)` keeps the method of before, which its loop goes on to call. So the standard library's thread queues
are followed by `_qsize`, `_get` and `_put` too, which those methods call when they begin and when they succeed. What was
called by its new method is said so by that one, and left alone here.

And it may be left over from an earlier run and never be used again, while its successor has its name: so what it holds
and may hold comes to the books with its first operation. That operation holds the queue's lock when it calls these
methods, so what the queue holds is read between two moves of items, and no lock is taken for it. Of other queues
a count may be off by what moved in the instant in which following began.
"""

import functools
import gc
import inspect
import queue as thread_queues
import sys
import threading
from collections.abc import Callable, Mapping
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, Final

from traintrace.stages.blocks import CURRENT
from traintrace.stages.marks import GOT, PLACED, queue_code
from traintrace.stages.recorder import FULL, StageRecorder
from traintrace.stages.worker import Worker

Method = Callable[..., Any]

_KNOWN: Final = ("queue", "_queue", "multiprocessing.queues", "asyncio.queues")


class _Calls(threading.local):
    """What the calling thread is in; a forked child has nothing of the other threads, whose identities come again.

    Attributes:
        inside: The queue that it is in a method of which counts for all that this one calls of it.
    """

    inside: "Midway | None" = None


# One for all, which is never garbage: clearing one may hang Pythons before 3.12 that look for frames meanwhile.
_CALLS: Final = _Calls()


class Midway:
    """What a thread queue has besides its followed methods.

    Args:
        number: Of its name.
        recorder: What records it.
        capacity: How many items it holds at most; None if it is not bounded.
    """

    def __init__(self, number: int, recorder: StageRecorder, capacity: int | None) -> None:
        code = queue_code(number)
        # What the methods that may wait are written as if they succeed.
        self._codes: dict[CodeType, int] = {
            thread_queues.Queue.get.__code__: code + GOT,
            thread_queues.Queue.put.__code__: code + PLACED,
        }
        self._got, self._placed = code + GOT, code + PLACED
        self._number = number
        self._recorder = recorder
        self._unused = [capacity]  # empty once it was used

    def add_to(self, members: dict[str, Any], base: Any) -> None:
        """Add to the members of the class that is made of the user's, `base`, which nobody uses yet."""
        members["get"] = self._telling(members["get"])
        members["put"] = self._telling(members["put"])
        members["_qsize"] = self._beginning(base._qsize)
        members["_get"] = self._succeeding(base, base._get, self._got)
        members["_put"] = self._succeeding(base, base._put, self._placed)

    def settle(self, queue: Any, since: int, workers: Mapping[int, Worker]) -> None:
        """Account for who was in the middle of an operation when following began.

        Args:
            queue: It, which is followed now.
            since: A moment [ns] just before that.
            workers: Threads that are workers of this recorder, by their identity.
        """
        inside = _inside(queue, self._codes) if _is_waited_in(queue) else {}
        if inside:
            self._use(queue)
        for thread, code in inside.items():
            if thread in workers:
                workers[thread].waits_for, workers[thread].waits_since = code, since

    def _use(self, queue: Any) -> None:
        """The queue is used, and before anything moves: count it, and what it holds."""
        # What it holds first: if another thread counts it meanwhile, this is void.
        self._count(self._held(queue))

    def _held(self, queue: Any) -> int:
        held = 0
        with self._recorder.faults.guard("what a queue held when the trace began"):
            held = size_of(queue)
        return held

    def _count(self, held: int) -> None:
        try:
            capacity = self._unused.pop()
        except IndexError:  # it was used before
            return
        if not self._recorder.is_child:  # there it is a copy
            self._recorder.add_queue(self._number, capacity, held)

    def _telling(self, method: Method) -> Method:
        """Let a followed method say that the calling thread is in it."""

        @functools.wraps(method)
        def call(queue: Any, *args: Any, **kwargs: Any) -> Any:
            around, held = _CALLS.inside, self._held(queue) if self._unused else 0
            try:
                _CALLS.inside = self
                return method(queue, *args, **kwargs)
            finally:
                _CALLS.inside = around
                if self._unused:  # a class whose methods are all the user's own
                    self._count(held)

        return call

    def _beginning(self, method: Method) -> Method:
        """Follow what is called when an operation begins, and again after each wait."""
        codes = self._codes

        @functools.wraps(method)
        def call(queue: Any, *args: Any, **kwargs: Any) -> Any:
            is_told = _CALLS.inside is self
            if self._unused or not is_told:
                code = codes.get(sys._getframe(1).f_code)
                if code is not None:  # else it is `empty`, `full` or `qsize`
                    if self._unused:
                        self._use(queue)
                    if not is_told:
                        self._begin(code)
            return method(queue, *args, **kwargs)

        return call

    def _succeeding(self, base: type, method: Method, code: int) -> Method:
        """Follow what is called when an operation succeeds."""
        recorder, discarding = self._recorder, _discarding(base)

        @functools.wraps(method)
        def call(queue: Any, *args: Any, **kwargs: Any) -> Any:
            if self._unused:
                self._use(queue)
            around = _CALLS.inside
            if around is self or sys._getframe(1).f_code in discarding:
                return method(queue, *args, **kwargs)
            try:
                _CALLS.inside = self  # a class of the user's whose `_put` makes room by `_get`
                result = method(queue, *args, **kwargs)
            finally:
                _CALLS.inside = around
            if recorder.recording:
                self._write(code)
            return result

        return call

    def _begin(self, code: int) -> None:
        worker = self._worker()
        if worker is not None and not worker.waits(code):
            worker.waits_for, worker.waits_since = code, self._recorder.now()

    def _write(self, code: int) -> None:
        recorder, worker = self._recorder, self._worker()
        now = recorder.now()
        if worker is None:
            recorder.outside.extend((now, code))
            if len(recorder.outside) > FULL:
                recorder.relieve()
            return
        worker.entries.extend((worker.waits_since if worker.waits(code) else now, now, code))
        if len(worker.entries) > FULL:
            recorder.relieve(worker)

    def _worker(self) -> Worker | None:
        """Give the worker that the calling thread is; a task waits in no thread queue."""
        block = CURRENT.get()
        worker = None if block is None else block.worker
        if worker is None or worker.recorder is not self._recorder or not worker.is_held():
            return None
        return worker


def _inside(queue: Any, codes: Mapping[CodeType, int]) -> dict[int, int]:
    """Give the threads that are in methods of these codes of a queue, and which operation that is."""
    found: dict[int, int] = {}
    frames = _frames_of_others()
    for thread, top in frames.items():
        frame: FrameType | None = top
        while frame is not None and thread not in found:
            if frame.f_code in codes and frame.f_locals.get("self") is queue:
                found[thread] = codes[frame.f_code]
            frame = frame.f_back
    return found


def _frames_of_others() -> dict[int, FrameType]:
    """Give the frames of other threads.

    The caller's would hold itself, and so those that called it with all that is in them, until a garbage collection.
    """
    collects = gc.isenabled()
    gc.disable()  # before Python 3.12 all threads may hang if one runs in the middle of this
    try:
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    frames.pop(get_ident(), None)
    return frames


def _is_waited_in(queue: Any) -> bool:
    """Say whether a thread may wait in a queue; looking into the threads costs more."""
    conditions = [getattr(queue, name, None) for name in ("not_empty", "not_full")]
    return any(getattr(condition, "_waiters", True) for condition in conditions)


def _discarding(base: type) -> set[CodeType]:
    """Give the code of methods of a class that take items for nobody: since Python 3.13 `shutdown` may."""
    shutdowns = (vars(one).get("shutdown") for one in base.__mro__)
    return {one.__code__ for one in shutdowns if inspect.isfunction(one)}


def is_for_threads(queue: object) -> bool:
    """Say whether an object is a thread queue of the standard library, maybe with methods of the user's."""
    return isinstance(queue, thread_queues.Queue) and not (
        inspect.iscoroutinefunction(queue.get) or inspect.iscoroutinefunction(queue.put)
    )


def size_of(queue: Any) -> int:
    """Give how many items a queue holds; 0 if it does not say, or is a user's own: who knows what it does then."""
    if not any(base.__module__ in _KNOWN for base in type(queue).__mro__):
        return 0
    if isinstance(queue, thread_queues.Queue):
        return int(queue._qsize())  # the public one would take the lock
    try:
        return max(0, int(queue.qsize()))
    except (AttributeError, NotImplementedError):  # multiprocessing's on a macOS, and simple ones
        return 0
