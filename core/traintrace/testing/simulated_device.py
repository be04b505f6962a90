"""A device that runs queued work behind the host's back, with durations that are known exactly.

    host     launch(4 ms) returns at once        record -> an event at the end of the queue
    device   |---- 4 ms ----|-- 2 ms --|         reached when the clock has passed that moment

The clock may be a `FakeClock`, or the machine's own: then a real training loop, with `launch` in place of
its work, runs far ahead of the device, and the times that a tracer reads must equal what was launched.

Events can be made slow, failing or never to resolve. Waiting is impossible: there is no method for it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from traintrace.testing.clock import FakeClock

Behaviour = Literal["good", "fails", "never"]
# On the machine's clock a launch keeps the host for as long as launching a kernel does. A tracer may take
# boundaries that are closer together for one: nothing can have been launched between them.
LAUNCH_NS: Final = 6_000


@dataclass(slots=True)
class SimulatedEvent:
    """A timing event.

    Attributes:
        at_ns: When the device reaches it; None before it is recorded.
        late_ns: How much later than that the host learns of it.
    """

    at_ns: int | None = None
    behaviour: Behaviour = "good"
    late_ns: int = 0


class SimulatedDevice:
    """A device clock for tests; see `traintrace.clock.DeviceClock`.

    Args:
        clock: The host's clock [ns].
        events: Size of the pool.

    Attributes:
        next_behaviour: What the events taken from now on do.
        next_late_ns: How late the host learns of the events taken from now on.
        queries: How often an event was asked for.
        ran_dry: How often an event or a launch found the queue empty after the first launch.
    """

    name = "simulated"

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns, events: int = 64) -> None:
        self._clock = clock
        self._pool = [SimulatedEvent() for _ in range(events)]
        self._pooled = {id(event) for event in self._pool}
        self._busy_until = 0
        self.next_behaviour: Behaviour = "good"
        self.next_late_ns = 0
        self.queries = self.ran_dry = 0

    @property
    def pooled(self) -> int:
        """Give the number of events in the pool."""
        return len(self._pool)

    def launch(self, duration_ns: int) -> None:
        """Queue work; the host goes on at once, or after `LAUNCH_NS` on the machine's own clock."""
        now = self._clock()
        self._busy_until = self._queue_end(now) + duration_ns
        while not isinstance(self._clock, FakeClock) and self._clock() < now + LAUNCH_NS:
            pass

    def _queue_end(self, now: int) -> int:
        self.ran_dry += 0 < self._busy_until < now
        return max(now, self._busy_until)

    @property
    def backlog_ns(self) -> int:
        """Give how far the device is behind the host; 0 once its queue is empty."""
        return max(0, self._busy_until - self._clock())

    def finish_all(self) -> None:
        """Let a fake clock pass until the queue is empty; what a test does between steps.

        Raises:
            TypeError: The clock is the machine's own. Nothing here waits for it.
        """
        if not isinstance(self._clock, FakeClock):
            raise TypeError("only a FakeClock can be advanced")
        self._clock.advance(self.backlog_ns)

    def take(self) -> object | None:
        """Record a pooled event at the end of the queue; None if the pool is empty."""
        if not self._pool:
            return None
        event = self._pool.pop()
        self._pooled.remove(id(event))
        event.at_ns = self._queue_end(self._clock())
        event.behaviour, event.late_ns = self.next_behaviour, self.next_late_ns
        return event

    def give_back(self, event: object) -> None:
        """Return an event to the pool."""
        assert isinstance(event, SimulatedEvent)
        assert id(event) not in self._pooled, "given back twice"
        self._pooled.add(id(event))
        self._pool.append(event)

    def is_ready(self, event: object) -> bool:
        """Say whether the host may know that the device has reached `event`.

        Raises:
            RuntimeError: The event fails.
        """
        assert isinstance(event, SimulatedEvent)
        assert event.at_ns is not None
        self.queries += 1
        if event.behaviour == "fails":
            raise RuntimeError("simulated event failure")
        return event.behaviour == "good" and self._clock() >= event.at_ns + event.late_ns

    def elapsed_ns(self, start: object, end: object) -> int:
        """Give the device time between two events.

        Raises:
            RuntimeError: One of the events fails or was not reached.
        """
        for event in (start, end):
            if not self.is_ready(event):
                raise RuntimeError("simulated event is not ready")
        assert isinstance(start, SimulatedEvent)
        assert isinstance(end, SimulatedEvent)
        assert start.at_ns is not None
        assert end.at_ns is not None
        return end.at_ns - start.at_ns
