"""The journal: what runs inside training. It appends a clock reading and a code, and computes nothing.

A journal is a list of alternating moments and codes. A code enters an account, leaves one, relabels
the innermost one, or marks a fact. What the entries mean is decided off the training thread, by
`traintrace.recording.ledger`. One journal belongs to the thread that opened its session.

    enter   account              open `account` inside whatever is open
    leave   ~account             unwind to the innermost entry of `account`
    switch  SWITCH + account     the innermost entry becomes `account` (one mark per boundary)
    base    BASE + account       what time is charged to when nothing is open
    region  REGION + 2 i         open the i-th named region;  REGION + 2 i + 1 closes it
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Final, NamedTuple, Protocol

from traintrace import accounts
from traintrace.recording.steps import StepCapture

Clock = Callable[[], int]

SWITCH: Final = 64
BASE: Final = 128
OPEN: Final = 192  # a step opens although no batch was requested
ABORT: Final = 193  # the open step is dropped
EXHAUSTED: Final = 194  # the fetch that is open ended in StopIteration
OWN_WORK_DONE: Final = 195  # this rank's own part of the backward that is open has ended
RETRACT: Final = 196  # the step that OPEN opened last brought no batch: no step has opened
ABANDON: Final = 197  # all steps completed so far count no more
UNUSED: Final = 198  # nothing was trained on the batches of the open step: no step has opened
REGION: Final = 256

# Past this many entries a step's segment is published in parts, so that one step with thousands of
# micro-batches, or an evaluation of a million batches between two steps, stays bounded.
PART_ENTRIES: Final = 2 * 4096

# Codes whose transitions the device clock records: the host can only have queued work around these.
_DEVICE_ACCOUNTS = (
    accounts.H2D,
    accounts.FORWARD,
    accounts.BACKWARD,
    accounts.GRADIENT_SYNC,
    accounts.OPTIMIZER,
)
DEVICE_CODES: Final = frozenset(
    [code for number in _DEVICE_ACCOUNTS for code in (number, ~number, SWITCH + number)]
    + [OWN_WORK_DONE]
)


class DeviceMark(NamedTuple):
    """A timing event that stands for the entry at `position` (index of its moment)."""

    position: int
    event: object


class Segment(NamedTuple):
    """A stretch of the journal, published to the drain by reference.

    Attributes:
        entries: Alternating moments [ns, monotonic] and codes.
        end_ns: Where the segment ends and the next one begins.
        capture: The step that this segment completes; None for a part of a longer stretch.
        device_marks: Timing events of the segment; None where the device was not timed throughout.
    """

    entries: tuple[int, ...]
    end_ns: int
    capture: StepCapture | None
    device_marks: tuple[DeviceMark, ...] | None


class Queue(Protocol):
    """Where segments wait for the drain.

    Attributes:
        waiting: The segments; publishing appends to it and makes no other call while there is room.
        room: Length from which on `make_room` is called after each segment.
    """

    waiting: deque[Segment]
    room: int

    def make_room(self) -> None:
        """Keep the queue bounded; called on the training thread, never waits."""


_new_tuple: Final = tuple.__new__


class Recorder(Protocol):
    """Records timing events on a device beside the journal's entries, and never waits."""

    def open_step(self) -> None:
        """Forget what was recorded before the step's first batch request."""

    def retract_step(self) -> None:
        """The request brought no batch: no step has opened."""

    def record(self, position: int) -> None:
        """Record an event that stands for the entry at `position`."""

    def detach(self) -> tuple[DeviceMark, ...] | None:
        """Give the events since the last call and forget them; None if any is missing."""


class Journal:
    """The entries of one thread since its last published segment.

    Attributes:
        now: The clock [ns, monotonic].
        owner: Identity of the only thread that may write; -1 in a forked child and after the end.
        foreign_calls: Calls of hooks on other threads, which returned at once.
        segments: Segments published so far.
    """

    __slots__ = (
        "_entries",
        "_publish",
        "_queue",
        "_recorder",
        "_room",
        "_waiting",
        "foreign_calls",
        "now",
        "owner",
        "segments",
    )

    def __init__(
        self,
        owner: int,
        publish: Callable[[Segment], None],
        now: Clock = time.perf_counter_ns,
        recorder: Recorder | None = None,
    ) -> None:
        self._entries: list[int] = []
        self._publish = publish
        self._queue: Queue | None = None
        self._recorder = recorder
        self.now = now
        self.owner = owner
        self.foreign_calls = self.segments = 0

    def publish_to(self, queue: Queue) -> None:
        """Forget what was written so far and publish to `queue` from now on: the span begins."""
        self._entries.clear()
        self._queue = queue
        self._waiting, self._room = queue.waiting, queue.room

    @property
    def plain(self) -> Callable[[tuple[int, int]], None] | None:
        """Give what takes a (moment, code) pair as it is, or None if marks do more than that here.

        For what is run at every micro-batch and cannot afford a marker's frame; whoever uses it to open
        something keeps the journal bounded by a marker now and then.
        """
        return self._entries.extend if self._recorder is None else None

    def marker(self, code: int) -> Callable[[], None]:
        """Make the function that writes `code`; hooks make theirs once and call it per event.

        A moment and its code go in by one call, so that an exception raised by a signal handler
        never parts them. Markers that open something also keep the journal bounded.
        """
        extend, now, entries, cut = self._entries.extend, self.now, self._entries, self.cut

        def leave() -> None:
            extend((now(), code))

        def enter() -> None:
            if len(entries) > PART_ENTRIES:
                cut(None)
            extend((now(), code))

        mark = leave if code < 0 else enter
        recorder = self._recorder
        if recorder is None:
            return mark
        before: Callable[[], None]
        if code in DEVICE_CODES:
            before = lambda: recorder.record(len(entries))  # noqa: E731
        elif code in (accounts.INPUT_WAIT, OPEN):
            before = recorder.open_step
        elif code in (EXHAUSTED, RETRACT, UNUSED):
            before = recorder.retract_step
        else:
            return mark

        def mark_with_event() -> None:
            before()
            mark()

        return mark_with_event

    def named_marker(self, codes: Mapping[str, int]) -> Callable[[str], None]:
        """Make one function that writes the code of a name; it does nothing on other threads.

        Raises (when called):
            KeyError: No code has that name.
        """
        extend, now, entries, cut = self._entries.extend, self.now, self._entries, self.cut

        def mark(name: str) -> None:
            code = codes[name]
            if get_ident() == self.owner:
                if len(entries) > PART_ENTRIES:
                    cut(None)
                extend((now(), code))

        if self._recorder is None:
            return mark
        markers = {name: self.marker(code) for name, code in codes.items()}

        def mark_with_event(name: str) -> None:
            marker = markers[name]
            if get_ident() == self.owner:
                marker()

        return mark_with_event

    def write(self, code: int) -> None:
        """Write `code` once; for events too rare to keep a marker."""
        self.marker(code)()

    def holds(self, code: int) -> bool:
        """Say whether `code` was written since the last segment was published; for rare questions."""
        return code in self._entries  # no moment is as small as a code

    def write_since(self, moment: int, account: int) -> None:
        """Write that `account` was open from `moment` [ns] until now; nothing if it was interrupted.

        For what only its end shows. It must be an account that the device clock does not record, and
        whatever was written after `moment` stands: nothing goes in before it.
        """
        entries = self._entries
        if not entries or entries[-2] <= moment:
            entries.extend((moment, account, self.now(), ~account))

    def cut(self, capture: StepCapture | None) -> int:
        """Publish the entries so far and start the next segment at the same instant; give that instant."""
        entries, recorder, marks = self._entries, self._recorder, None
        if recorder is not None and capture is not None:
            recorder.record(len(entries))
        end = self.now()
        if recorder is not None:
            marks = recorder.detach()
        # Not `Segment(...)`: a named tuple's constructor is one more Python call at every step.
        segment = _new_tuple(Segment, (tuple(entries), end, capture, marks))
        # First cleared, then published: an exception between the two loses a row, but no entry is
        # ever booked twice.
        entries.clear()
        self.segments += 1
        if self._queue is None:
            self._publish(segment)
        else:
            self._waiting.append(segment)
            if len(self._waiting) >= self._room:
                self._queue.make_room()
        return end

    def is_foreign(self, thread: int) -> bool:
        """Say whether `thread` may not write here, and count the call if so."""
        if thread == self.owner:
            return False
        self.foreign_calls += 1
        return True

    def disown(self) -> None:
        """Let nobody write from now on: the session ended, or this is a forked child."""
        self.owner = -1

    def __reduce__(self) -> tuple[Callable[..., "Journal"], tuple[int, Callable[[Segment], None]]]:
        """Pickle as a journal that nobody may write: a copy in another process records nothing."""
        return Journal, (-1, _discard)


def _discard(segment: Segment) -> None:
    """Publish to nobody."""
