"""Device times of steps: record events beside the journal, resolve them later, never wait.

    training thread   EventRecorder.record        one event per transition, neighbours share
    drain             PendingSteps.add            a step whose events are still on their way
    drain             PendingSteps.resolve        asks the oldest; gives (step, nanoseconds per account)

A step whose events fail, lie or never come loses its device times and no other step does.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from traintrace.clock import DeviceClock
from traintrace.recording.journal import Clock, DeviceMark, Segment
from traintrace.recording.ledger import Ledger

# Two transitions closer than this share one event: a kernel launch takes the host about as long
# (5 us), so nothing can have been queued between them.
SHARED_EVENT_NS: Final = 5_000
MAX_EVENTS_PER_STEP: Final = 64
# A step whose events have not come after this long has none: a backend may never resolve them.
RESOLVE_DEADLINE_NS: Final = 30 * 1_000_000_000


class EventRecorder:
    """Records the device events of the step that is open; lives on the training thread.

    Attributes:
        enabled: False once the tracer went down to the host clock.
        spent_ns: Host time that recording has taken so far, measured in place.
    """

    __slots__ = (
        "_clock",
        "_complete",
        "_last_ns",
        "_marks",
        "_now",
        "_step_open",
        "enabled",
        "spent_ns",
    )

    def __init__(self, clock: DeviceClock, now: Clock) -> None:
        self._clock = clock
        self._now = now
        self._marks: list[DeviceMark] = []
        self._complete = True
        self._last_ns = 0
        self._step_open = False
        self.enabled = True
        self.spent_ns = 0

    def open_step(self) -> None:
        """Forget what lies before the step's first batch request; later requests change nothing."""
        if not self._step_open:
            self.detach()
            self._step_open = True

    def retract_step(self) -> None:
        """The request brought no batch: the step has not opened after all."""
        self._step_open = False

    def record(self, position: int) -> None:
        """Record an event for the journal entry at `position`, or note that one is missing."""
        if not (self.enabled and self._complete):
            return
        moment = self._now()
        if self._marks and moment - self._last_ns < SHARED_EVENT_NS:
            self._marks.append(DeviceMark(position, self._marks[-1].event))
            return
        event = self._take()
        if event is None:
            self._complete = False
            return
        self._marks.append(DeviceMark(position, event))
        self._last_ns = self._now()
        self.spent_ns += self._last_ns - moment

    def _take(self) -> object | None:
        if len(self._marks) >= MAX_EVENTS_PER_STEP:
            return None
        try:
            return self._clock.take()
        except Exception:  # noqa: BLE001 - a driver fault costs this step its device times, no more
            return None

    def detach(self) -> tuple[DeviceMark, ...] | None:
        """Give the marks of the segment that ends here; None if an event is missing."""
        marks, complete = tuple(self._marks), self._complete and self._step_open
        self._marks, self._complete, self._step_open = [], True, False
        if complete and self.enabled:
            return marks
        for event in {id(mark.event): mark.event for mark in marks}.values():
            self._clock.give_back(event)
        return None


@dataclass(frozen=True, slots=True)
class _Pending:
    step: int
    segment: Segment
    books: Ledger
    since_ns: int


class PendingSteps:
    """Steps whose device events have not all resolved, oldest first; lives on the drain thread.

    Attributes:
        lost: Steps that will never have device times.
    """

    def __init__(self, clock: DeviceClock, now: Clock) -> None:
        self._clock = clock
        self._now = now
        self._waiting: deque[_Pending] = deque()
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, step: int, segment: Segment, books: Ledger) -> None:
        """Queue a step. `books` is the ledger's state before the segment was booked."""
        if segment.device_marks:
            self._waiting.append(_Pending(step, segment, books, self._now()))
        else:
            self.lost += 1

    def discard(self, segment: Segment) -> None:
        """Return the events of a segment that is not a whole step; it has no device times."""
        self._return_events(segment)
        self.lost += segment.capture is not None

    def resolve(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Give every step that is ready with its nanoseconds per account inside the step."""
        while self._waiting:
            pending = self._waiting[0]
            events = [mark.event for mark in pending.segment.device_marks or ()]
            try:
                if not self._clock.is_ready(events[-1]):
                    if not self._is_lost(pending):
                        return
                    self._waiting.popleft()  # the events may still be in use: they are not reused
                    self.lost += 1
                    continue
                inside = self._replay(pending)
            except Exception:  # noqa: BLE001 - a failing event costs its own step the device times
                inside = None
            self._waiting.popleft()
            self._return_events(pending.segment)
            if inside is None:
                self.lost += 1
            else:
                yield pending.step, inside

    def _is_lost(self, pending: _Pending) -> bool:
        """Say whether an unready step will never be ready: too old, or overtaken by the newest step."""
        if self._now() - pending.since_ns >= RESOLVE_DEADLINE_NS:
            return True
        newest = self._waiting[-1]
        marks = newest.segment.device_marks or ()
        return newest is not pending and self._clock.is_ready(marks[-1].event)

    def _return_events(self, segment: Segment) -> None:
        for event in {id(mark.event): mark.event for mark in segment.device_marks or ()}.values():
            self._clock.give_back(event)

    def _replay(self, pending: _Pending) -> tuple[int, ...] | None:
        """Book the segment's entries at the moments at which the device reached them."""
        marks = pending.segment.device_marks or ()
        start = pending.books.moment
        reached = start
        entries = list(pending.segment.entries)
        due = iter(marks)
        mark = next(due, None)
        for position in range(0, len(entries), 2):
            while mark is not None and mark.position <= position:
                later = start + self._clock.elapsed_ns(marks[0].event, mark.event)
                if later < reached:
                    return None  # an event that ran before its predecessor: this clock lies
                reached = later
                mark = next(due, None)
            entries[position] = reached
        end = start + self._clock.elapsed_ns(marks[0].event, marks[-1].event)
        if end < reached:
            return None
        row = pending.books.replay(pending.segment._replace(entries=tuple(entries), end_ns=end))
        return None if row is None else row.inside
