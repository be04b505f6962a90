"""The hand-over from the training thread to the drain: a bounded queue that loses no nanosecond.

    training thread   put      append to a deque; never waits (a journal does the same, a call cheaper)
    drain             replay   book what was put, in order

If the drain falls behind by more than the queue holds, the training thread books the oldest segments
itself: those steps have no rows, their time is in the totals, and they are counted as dropped.
"""

import threading
from collections import deque
from typing import Final

from traintrace import facts
from traintrace.recording.books import LedgerRow, LedgerTotals
from traintrace.recording.device import PendingSteps
from traintrace.recording.epochs import Epochs
from traintrace.recording.journal import Segment
from traintrace.recording.ledger import Ledger
from traintrace.recording.occurrences import Occurrence
from traintrace.recording.rows import spans_of
from traintrace.recording.steps import StepCapture

CAPACITY: Final = 2048
# Segments booked under one hold of the lock; a slice of 256 takes about a millisecond.
SLICE: Final = 256


class Counts:
    """Sums of what captures carried, over completed steps; None where nothing was ever counted.

    Attributes:
        largest_group: Most micro-batches in one step: what accumulation was in effect.
    """

    __slots__ = (
        "dropped_rows",
        "epochs",
        "largest_group",
        "micro_batches",
        "padded_tokens",
        "samples",
        "tokens",
        "updates_skipped",
    )

    def __init__(self) -> None:
        self.micro_batches = self.dropped_rows = self.largest_group = 0
        self.samples: int | None = None
        self.tokens: int | None = None
        self.padded_tokens: int | None = None
        self.updates_skipped: int | None = None
        self.epochs: int | None = None

    def add(self, capture: StepCapture) -> None:
        """Add one completed step."""
        self.micro_batches += capture.micro_batches
        self.largest_group = max(self.largest_group, capture.micro_batches)
        self.samples = _sum(self.samples, capture.samples)
        self.tokens = _sum(self.tokens, capture.tokens)
        self.padded_tokens = _sum(self.padded_tokens, capture.padded_tokens)
        if capture.update_skipped is not None:
            self.updates_skipped = _sum(self.updates_skipped, int(capture.update_skipped))
        if capture.epoch is not None:
            self.epochs = max(self.epochs or 0, capture.epoch + 1)


def _sum(total: int | None, amount: int | None) -> int | None:
    return total if amount is None else (total or 0) + amount


class Handover:
    """Segments on their way to the books, and the books themselves.

    Attributes:
        counts: Sums of what the captures carried, over the steps that count.
        waiting: Segments that nobody has booked. room: from this many on the drain is woken.
        filling: Set when the queue is half full, so that the drain does not sleep on.
    """

    def __init__(
        self, ledger: Ledger, pending: PendingSteps | None = None, capacity: int = CAPACITY
    ) -> None:
        self._ledger = ledger
        self._pending = pending
        self._capacity = capacity
        self.room = max(1, capacity // 2)
        self.waiting: deque[Segment] = deque()
        self._lock = threading.Lock()
        self._in_parts = False
        self._epochs = Epochs()
        self.counts = Counts()
        self.filling = threading.Event()

    def put(self, segment: Segment) -> None:
        """Queue a segment; called on the training thread, never waits and never loses time."""
        self.waiting.append(segment)
        if len(self.waiting) >= self.room:
            self.make_room()

    def make_room(self) -> None:
        """Wake the drain, and once the queue is full book the oldest segments here and now."""
        waiting = self.waiting
        if len(waiting) <= self._capacity:
            self.filling.set()
        elif self._lock.acquire(blocking=False):
            # If the lock is taken the drain is making room at this moment. Otherwise room is made for
            # a while, so that the drain finds the lock free in between.
            try:
                for _ in range(min(SLICE, self._capacity)):
                    if self._book(waiting.popleft(), keep=False) is not None:
                        self.counts.dropped_rows += 1
            finally:
                self._lock.release()

    def replay(self) -> tuple[list[tuple[int, LedgerRow]], LedgerTotals, bool]:
        """Book up to a slice of segments; give (step number, row) pairs, totals, and whether more wait."""
        rows = []
        with self._lock:
            for _ in range(min(len(self.waiting), SLICE)):
                row = self._book(self.waiting.popleft(), keep=True)
                if row is not None:
                    rows.append((self._ledger.last_step, row))
            return rows, self._ledger.totals(), bool(self.waiting)

    def close(self) -> tuple[tuple[facts.Span, ...], LedgerTotals]:
        """End the books after the last `replay`; give the spans after the last row, and the totals."""
        with self._lock:
            inside, between, calls = self._ledger.close()
            self._epochs.close()
            tail = spans_of(self._ledger.last_step + 1, between, inside, calls)
            return tail, self._ledger.totals()

    def take_occurrences(self) -> list[Occurrence]:
        """Give what the books have seen end since the last call: epochs, evaluations, checkpoints."""
        taken = self._ledger.occurrences.take() + self._epochs.ended.take()
        return sorted(taken, key=lambda occurrence: occurrence.start_ns)

    @property
    def occurrences_lost(self) -> int:
        """Give how many occurrences came while too many were waiting."""
        return self._ledger.occurrences.lost + self._epochs.ended.lost

    def _book(self, segment: Segment, keep: bool) -> LedgerRow | None:
        timed = self._pending is not None and keep and segment.capture is not None
        books = self._ledger.snapshot() if timed and not self._in_parts else None
        abandoned = self._ledger.steps_abandoned
        row = self._ledger.replay(segment)
        if self._ledger.steps_abandoned != abandoned:
            self.counts = Counts()
            self._epochs.close(" (abandoned)")
        if row is not None:
            self.counts.add(row.capture)
            self._epochs.add(self._ledger.last_step, row)
        if self._pending is not None:
            if books is not None:
                self._pending.add(self._ledger.last_step, segment, books)
            else:
                self._pending.discard(segment)
        self._in_parts = segment.capture is None
        return row
