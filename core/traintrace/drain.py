"""The drain: one thread per session that books, resolves and writes what training published.

Nothing here runs on the training thread, apart from the last flush when the session ends.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from traintrace import accounts, facts
from traintrace.clock import HostAnchor
from traintrace.device import PendingSteps
from traintrace.faults import FaultReporter
from traintrace.handover import Handover
from traintrace.ledger import LedgerTotals
from traintrace.retention import Retention
from traintrace.rows import BookedStep, book_step
from traintrace.samplers import ResidentSampler
from traintrace.store import RankWriter

FLUSH_INTERVAL_S: Final = 0.5
# An idle drain still writes this often, so that a reader can tell a quiet run from a dead one.
HEARTBEAT_S: Final = 2.0
# Segments of one transaction: this many slices, so that a fast producer still reaches the disk.
SLICES_PER_WRITE: Final = 16
# How long the end of a run waits for device events that are still on their way.
FINAL_RESOLVE_S: Final = 1.0


Item = TypeVar("Item")


class Deferred(Protocol):
    """A logged value that is still on its way from the device."""

    def ready(self) -> bool:
        """Say whether `value` can be read without waiting."""

    def value(self) -> float:
        """Give the value."""


class RankState(Protocol):
    """What the drain asks the session for at each flush."""

    def meta(self, largest_group: int) -> Mapping[str, Any]:
        """Give everything about the rank that is not a row.

        Args:
            largest_group: Most micro-batches that a step had so far.
        """

    def foreign_calls(self) -> int:
        """Give the number of hook calls on other threads."""

    def after_flush(self, totals: facts.Totals) -> None:
        """React to fresh totals."""


class Drain:
    """Turns published segments into stored rows, on a thread of its own.

    Attributes:
        cpu_s: CPU seconds this thread has used.
    """

    def __init__(
        self,
        handover: Handover,
        writer: RankWriter,
        state: RankState,
        faults: FaultReporter,
        anchor: HostAnchor,
        region_names: list[str],
        pending: PendingSteps | None,
        resident: ResidentSampler | None,
        interval_s: float = FLUSH_INTERVAL_S,
    ) -> None:
        self._handover = handover
        self._writer = writer
        self._state = state
        self._faults = faults
        self._anchor = anchor
        self._region_names = region_names
        self._pending = pending
        self._resident = resident
        self._interval_s = interval_s
        self._retention = Retention(writer)
        self._events: deque[facts.Event] = deque()
        self._scalars: deque[facts.Scalar] = deque()
        self._deferred: list[tuple[int, str, Deferred]] = []
        self._flush_lock = threading.Lock()
        self._stop = threading.Event()
        self._written_at = 0.0
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="traintrace-drain", daemon=True)

    def start(self) -> None:
        """Start the thread, and the one that reads memory."""
        self._thread.start()
        if self._resident is not None:
            self._resident.start()

    def add_event(self, event: facts.Event) -> None:
        """Queue an event for the next flush; may be called from any thread."""
        self._events.append(event)

    def add_scalar(self, scalar: facts.Scalar) -> None:
        """Queue a value of a step that was published already, for the next flush."""
        self._scalars.append(scalar)

    def _run(self) -> None:
        with self._faults.guard("the head of the rank's file"):
            # At once, so that the file tells who it is however early the process dies.
            self._flush(even_if_empty=True)
        filling = self._handover.filling
        while not self._stop.is_set():
            filling.wait(self._interval_s)
            filling.clear()
            if not self._stop.is_set():
                with self._faults.guard("rows of the last half second"):
                    self.flush()
                self.cpu_s = time.thread_time()

    def flush(self) -> None:
        """Book and write everything published so far."""
        self._flush(even_if_empty=False)

    def _flush(self, even_if_empty: bool) -> None:
        with self._flush_lock:
            more = True
            while more:
                booked, totals, scalars, more = self._book_batch()
                self._write(booked, totals, (), scalars, even_if_empty)

    def stop(self) -> None:
        """Stop the threads; a second call does nothing."""
        self._stop.set()
        self._handover.filling.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._resident is not None:
            self._resident.close()

    def close(self) -> None:
        """Stop the threads, take in the tail, write the last flush and close the file."""
        self.stop()
        self._wait_for_device()
        with self._flush_lock:
            tail, ledger_totals = self._handover.close()
            scalars = _take_all(self._scalars) + self._take_deferred()
            self._write((), self._totals(ledger_totals), tail, scalars, even_if_empty=True)
            left_open = self._writer.close()
        if left_open is not None:
            self._faults.warn(
                f"{self._writer.location} keeps its write-ahead log beside it ({left_open}); "
                "copy the -wal file along with it"
            )
        if self._deferred:
            self._faults.warn(f"{len(self._deferred)} logged values never arrived from the device")

    def _wait_for_device(self) -> None:
        """Flush what is left, and give device events that are on their way a moment to arrive."""
        deadline = time.monotonic() + FINAL_RESOLVE_S
        self._flush(even_if_empty=False)
        while self._pending and time.monotonic() < deadline:
            time.sleep(0.005)
            self._flush(even_if_empty=False)

    def _book_batch(self) -> tuple[list[BookedStep], facts.Totals, list[facts.Scalar], bool]:
        """Book as much as one transaction takes; the last value says whether more waits."""
        booked: list[BookedStep] = []
        scalars = _take_all(self._scalars)
        for _ in range(SLICES_PER_WRITE):
            rows, ledger_totals, more = self._handover.replay()
            for number, row in rows:
                with self._faults.guard("the row of a step"):
                    if self._resident is not None:
                        row.capture.rss_bytes = self._resident.largest_until(row.end_ns)
                    step = book_step(number, row, self._anchor.offset_ns, self._region_names)
                    booked.append(step)
                    scalars += self._read_scalars(number, step.scalars)
            if not more:
                break
        return booked, self._totals(ledger_totals), scalars, more

    def _read_scalars(self, step: int, pairs: Sequence[tuple[str, object]]) -> list[facts.Scalar]:
        ready = []
        for name, value in pairs:
            if isinstance(value, float):
                ready.append(facts.Scalar(step, name, value))
            else:
                self._deferred.append((step, name, value))  # type: ignore[arg-type]  # see Session.log
        return ready + self._take_deferred()

    def _take_deferred(self) -> list[facts.Scalar]:
        waiting, self._deferred = self._deferred, []
        arrived = []
        for step, name, value in waiting:
            if value.ready():
                arrived.append(facts.Scalar(step, name, value.value()))
            else:
                self._deferred.append((step, name, value))
        return arrived

    def _write(
        self,
        booked: Sequence[BookedStep],
        totals: facts.Totals,
        tail: Sequence[facts.Span],
        scalars: Sequence[facts.Scalar],
        even_if_empty: bool = False,
    ) -> None:
        device = self._resolve()
        events = _take_all(self._events)
        moment = time.monotonic()
        something = bool(booked or device or events or scalars or even_if_empty)
        if not something and moment - self._written_at < HEARTBEAT_S:
            return
        self._written_at = moment
        self._writer.write(
            booked,
            totals,
            tail=tail,
            scalars=scalars,
            events=events,
            device_ns=device,
            meta=self._state.meta(self._handover.counts.largest_group),
        )
        if self._writer.fault is not None:
            self._faults.warn(
                f"traintrace cannot write {self._writer.location} any more ({self._writer.fault}); "
                "it keeps the rest in memory for the report"
            )
        self._retention.apply(totals.steps)
        self._state.after_flush(totals)

    def _resolve(self) -> list[tuple[int, Mapping[str, int]]]:
        if self._pending is None:
            return []
        measured = ("h2d", "forward", "backward", "optimizer")
        return [
            (step, {name: inside[accounts.number_of(name)] for name in measured})
            for step, inside in self._pending.resolve()
        ]

    def _totals(self, ledger: LedgerTotals) -> facts.Totals:
        named = {
            name: (ledger.total_ns[i], ledger.inside_ns[i], ledger.calls[i])
            for i, name in enumerate(accounts.NAMES)
            if ledger.total_ns[i] or ledger.calls[i]
        }
        counts = self._handover.counts
        return facts.Totals(
            account_ns={name: ns for name, (ns, _, _) in named.items()},
            inside_ns={name: inside for name, (_, inside, _) in named.items()},
            calls={name: calls for name, (_, _, calls) in named.items()},
            wall_ns=ledger.end_ns - ledger.start_ns,
            start_ns=ledger.start_ns + self._anchor.offset_ns,
            steps=ledger.steps,
            steps_aborted=ledger.steps_aborted,
            dropped_rows=counts.dropped_rows,
            micro_batches=counts.micro_batches,
            samples=counts.samples,
            tokens=counts.tokens,
            padded_tokens=counts.padded_tokens,
            updates_skipped=counts.updates_skipped,
            epochs=counts.epochs,
            transitions=ledger.transitions,
            foreign_calls=self._state.foreign_calls(),
            unbalanced=ledger.unbalanced,
        )


def _take_all(queue: "deque[Item]") -> list[Item]:
    """Empty a queue that another thread may be filling, and lose nothing."""
    taken = []
    while queue:
        taken.append(queue.popleft())
    return taken
