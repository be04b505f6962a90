"""A device that runs queued work behind the host's back, with durations that are known exactly.

    host     launch(4 ms) returns at once        record -> an event at the end of the queue
    device   |---- 4 ms ----|-- 2 ms --|         reached when the clock has passed that moment

Events can be made slow, failing or never to resolve. Waiting is impossible: there is no method for it.
"""

from dataclasses import dataclass
from typing import Literal

from traintrace.testing.clock import FakeClock

Behaviour = Literal["good", "fails", "never"]


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

    Attributes:
        next_behaviour: What the events taken from now on do.
        next_late_ns: How late the host learns of the events taken from now on.
        queries: How often an event was asked for.
    """

    name = "simulated"

    def __init__(self, clock: FakeClock, events: int = 64) -> None:
        self._clock = clock
        self._pool = [SimulatedEvent() for _ in range(events)]
        self._busy_until = 0
        self.next_behaviour: Behaviour = "good"
        self.next_late_ns = 0
        self.queries = 0

    @property
    def pooled(self) -> int:
        """Give the number of events in the pool."""
        return len(self._pool)

    def launch(self, duration_ns: int) -> None:
        """Queue work; the host goes on at once."""
        self._busy_until = max(self._clock(), self._busy_until) + duration_ns

    def finish_all(self) -> None:
        """Let the host's clock pass until the queue is empty; what a test does between steps."""
        self._clock.advance(max(0, self._busy_until - self._clock()))

    def take(self) -> object | None:
        """Record a pooled event at the end of the queue; None if the pool is empty."""
        if not self._pool:
            return None
        event = self._pool.pop()
        event.at_ns = max(self._clock(), self._busy_until)
        event.behaviour, event.late_ns = self.next_behaviour, self.next_late_ns
        return event

    def give_back(self, event: object) -> None:
        """Return an event to the pool."""
        assert isinstance(event, SimulatedEvent)
        assert event not in [pooled for pooled in self._pool if pooled is event], "given back twice"
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
