"""A queue that is followed from the middle of its life on: it holds items, threads wait in it, and kept its methods.

`iter(q.get, None)` keeps the method of before, which its loop goes on to call. So the standard library's thread queues
are followed by `_qsize`, `_get` and `_put` too, which those methods call when they begin and when they succeed. What was
called by its new method is said so by that one, and left alone here.

And it may be left over from an earlier run and never be used again, while its successor has its name: so what it holds
and may hold comes to the books with its first operation. No lock of the queue is taken: a count may be off by
an item that moved in the microseconds in which following began.
"""

import functools
import queue as thread_queues
import sys
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


def settle_midway(
    queue: Any,
    base: type,
    number: int,
    capacity: int | None,
    recorder: StageRecorder,
    workers: Mapping[int, Worker],
) -> None:
    """Account for what a queue that is followed since this instant was in the middle of.

    Args:
        queue: The queue.
        base: Its class before.
        number: Of its name.
        capacity: How many items it holds at most; None if it is not bounded.
        recorder: What records it.
        workers: Threads that are workers of this recorder, by their identity.
    """
    since = recorder.now()
    if not issubclass(base, thread_queues.Queue):
        recorder.add_queue(number, capacity, size_of(queue))
        return
    midway = _Midway(number, recorder, capacity, size_of(queue))
    midway.follow(type(queue), base)
    inside = _inside(queue, midway.codes)
    if inside:
        midway.use()
    for thread, code in inside.items():
        if thread in workers:
            workers[thread].waits_for, workers[thread].waits_since = code, since


class _Midway:
    """What one such queue has besides its followed methods.

    Attributes:
        codes: What the methods that may wait are written as if they succeed.

    Args:
        number: Of its name.
        recorder: What records it.
        capacity: What it may hold.
        held: How many items it held when following began.
    """

    def __init__(
        self, number: int, recorder: StageRecorder, capacity: int | None, held: int
    ) -> None:
        code = queue_code(number)
        self.codes: dict[CodeType, int] = {
            thread_queues.Queue.get.__code__: code + GOT,
            thread_queues.Queue.put.__code__: code + PLACED,
        }
        self._number = number
        self._recorder = recorder
        self._unused = [(capacity, held)]  # empty once it was used
        self._in_followed: set[int] = set()  # threads

    def use(self) -> None:
        """The queue is used: count it, and what it held."""
        try:
            capacity, held = self._unused.pop()
        except IndexError:  # it was used before
            return
        if not self._recorder.is_child:  # there it is a copy
            self._recorder.add_queue(self._number, capacity, held)

    def follow(self, followed: Any, base: Any) -> None:
        """Add to the class that was made of the user's, `base`, for a thread queue."""
        code = queue_code(self._number)
        followed.get = self._telling(followed.get)
        followed.put = self._telling(followed.put)
        followed._qsize = self._beginning(base._qsize)
        followed._get = self._succeeding(base._get, code + GOT)
        followed._put = self._succeeding(base._put, code + PLACED)

    def _telling(self, method: Method) -> Method:
        """Let a followed method say that the calling thread is in it."""
        in_followed = self._in_followed

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            thread = get_ident()
            if thread in in_followed:  # a class of the user's whose `get` calls itself
                return method(*args, **kwargs)
            in_followed.add(thread)
            if self._unused:
                self.use()
            try:
                return method(*args, **kwargs)
            finally:
                in_followed.discard(thread)

        return call

    def _beginning(self, method: Method) -> Method:
        """Follow what is called when an operation begins, and again after each wait."""
        in_followed, codes = self._in_followed, self.codes

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if get_ident() not in in_followed:
                code = codes.get(sys._getframe(1).f_code)
                if code is not None:  # else it is `empty`, `full` or `qsize`
                    self._begin(code)
            return method(*args, **kwargs)

        return call

    def _succeeding(self, method: Method, code: int) -> Method:
        """Follow what is called when an operation succeeds."""
        in_followed, recorder = self._in_followed, self._recorder

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if get_ident() not in in_followed and recorder.recording:
                if self._unused:
                    self.use()
                self._write(code)
            return result

        return call

    def _begin(self, code: int) -> None:
        worker = self._worker()
        if self._unused:
            self.use()
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
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top
        while frame is not None and thread not in found:
            if frame.f_code in codes and frame.f_locals.get("self") is queue:
                found[thread] = codes[frame.f_code]
            frame = frame.f_back
    return found


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
