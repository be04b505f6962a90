"""Python's garbage collections on the training thread, with their lengths.

`gc.callbacks` are called in the middle of whatever training does. An exception that a signal handler
raises inside a Python function there (Ctrl-C during a long collection) is printed and lost. So what is
registered here runs no Python code at all: a chain of built-in iterators takes the time and queues it.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from typing import Any, Final

from traintrace.facts import GC
from traintrace.recording.books import LedgerRow
from traintrace.recording.occurrences import Occurrence

# A pause from here on is an event, and flags its step: below it nobody can see it in a step's time.
LONG_PAUSE_NS: Final = 1_000_000
# Between two looks of the drain (0.5 s) there are some hundreds; only a drain that hangs leaves more.
_MAX_WAITING: Final = 50_000


class _Moments:
    """Queues the moment at which its attribute `start` or `stop` is looked up, and runs no Python code.

    Attributes:
        starts: Moments [ns, monotonic] with the identity of the thread. stops: the same.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.starts: deque[tuple[int, int]] = deque(maxlen=_MAX_WAITING)
        self.stops: deque[tuple[int, int]] = deque(maxlen=_MAX_WAITING)
        self.start_clock = _queue_moments(self.starts, now)
        self.stop_clock = _queue_moments(self.stops, now)


def _queue_moments(queue: deque[tuple[int, int]], now: Callable[[], int]) -> Iterator[None]:
    """Make an iterator whose every step appends (now, thread) to `queue`."""
    return map(queue.append, zip(iter(now, None), iter(get_ident, None), strict=False))


def _hook(moments: _Moments) -> Callable[[str, dict[str, Any]], object]:
    """Make what `gc.callbacks` calls with "start" or "stop": `getattr(clocks, phase, info)`."""
    clocks = {
        "start": property(partial(next, moments.start_clock)),  # next(iterator, self)
        "stop": property(partial(next, moments.stop_clock)),
    }
    return partial(getattr, type("Clocks", (), clocks)())


class GarbageWatch:
    """Watches collections on one thread; others only hold up training by the interpreter's lock.

    Attributes:
        total_ns: Time of all collections up to the last look.
        long_pauses: Pauses that are events of their own, until they are taken.
    """

    def __init__(self, thread: int, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._thread = thread
        self._moments = _Moments(now)
        self._hook = _hook(self._moments)
        # Start, length, and length of the longest: neighbours are merged when there are too many.
        self._pauses: deque[tuple[int, int, int]] = deque()
        self.long_pauses: list[Occurrence] = []
        self.total_ns = 0

    def begin(self) -> None:
        """Watch from now on."""
        gc.callbacks.append(self._hook)

    def close(self) -> None:
        """Watch no more; a second call does nothing."""
        if self._hook in gc.callbacks:
            gc.callbacks.remove(self._hook)

    def look(self) -> None:
        """Take in the collections since the last look; called by the drain."""
        starts, stops = self._moments.starts, self._moments.stops
        while starts and stops:
            if stops[0] < starts[0]:  # its start was forgotten, or came before the watch began
                stops.popleft()
            elif len(starts) > 1 and starts[1][0] <= stops[0][0]:
                starts.popleft()
            else:
                (start, thread), (stop, _) = starts.popleft(), stops.popleft()
                if thread == self._thread:
                    self._add(start, stop - start)

    def _add(self, start: int, length: int) -> None:
        self.total_ns += length
        if length >= LONG_PAUSE_NS:
            self.long_pauses.append(Occurrence("gc", start, length))
        if len(self._pauses) < _MAX_WAITING:
            self._pauses.append((start, length, length))
        else:
            first, sum_ns, longest = self._pauses.pop()
            self._pauses.append((first, sum_ns + length, max(longest, length)))

    def fill_in(self, row: LedgerRow) -> None:
        """Note on the row's capture how much of the step was collecting; called in the order of rows."""
        inside = 0
        while self._pauses and self._pauses[0][0] < row.end_ns:
            start, length, longest = self._pauses.popleft()
            if start >= row.open_ns:
                inside += length
                row.capture.flags |= GC if longest >= LONG_PAUSE_NS else 0
        row.capture.gc_ns = inside
