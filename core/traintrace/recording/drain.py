"""The drain: one thread per session that books, resolves and writes what training published.

Nothing here runs on the training thread, apart from queueing an event or a logged value, a flush that a
summary asks for, and the last flush when the session ends.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from traintrace import accounts, facts
from traintrace.clock import HostAnchor
from traintrace.faults import FaultReporter
from traintrace.recording.books import LedgerTotals
from traintrace.recording.device import PendingSteps
from traintrace.recording.eventlog import MAX_EVENTS, MAX_OF_A_KIND, EventLog
from traintrace.recording.handover import Handover
from traintrace.recording.incidents import Incidents
from traintrace.recording.logged import LoggedValues
from traintrace.recording.occurrences import MAX_WAITING
from traintrace.recording.rows import BookedStep, book_step
from traintrace.recording.stagelog import StageLog
from traintrace.recording.totals import make_totals
from traintrace.samplers import Sampler
from traintrace.store.retention import KEEP_LAST, Retention
from traintrace.store.writer import RankWriter

FLUSH_INTERVAL_S: Final = 0.5
# Share of the interval that the drain rests at least, however slow the disk is.
SHORTEST_WAIT: Final = 0.2
# An idle drain still writes this often, so that a reader can tell a quiet run from a dead one.
HEARTBEAT_S: Final = 2.0
# Segments of one transaction: this many slices, so that a fast producer still reaches the disk.
SLICES_PER_WRITE: Final = 16
# How long the end of a run waits for device events that are still on their way.
FINAL_RESOLVE_S: Final = 1.0


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
    """Turns published segments into stored rows, on a thread of its own."""

    def __init__(
        self,
        handover: Handover,
        writer: RankWriter,
        state: RankState,
        faults: FaultReporter,
        anchor: HostAnchor,
        region_names: list[str],
        pending: PendingSteps | None,
        sampler: Sampler,
        incidents: Incidents,
        stages: StageLog,
        keep_last: int | None,
        keep_steps: tuple[int, int] | None = None,
        interval_s: float = FLUSH_INTERVAL_S,
    ) -> None:
        self._handover = handover
        self._writer = writer
        self._state = state
        self._faults = faults
        self._anchor = anchor
        self._region_names = region_names
        self._pending = pending
        self._sampler = sampler
        self._incidents = incidents
        self._stages = stages
        self._interval_s = interval_s
        self._retention = Retention(writer, keep_last=keep_last or KEEP_LAST, keep_steps=keep_steps)
        self._events = EventLog()
        self._scalars = LoggedValues(faults)
        self._abandoned = 0  # the steps up to this number are flagged in the file
        self._flush_lock = threading.Lock()
        self._stop = threading.Event()
        self._written_at = 0.0
        self._own_cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="traintrace-drain", daemon=True)

    @property
    def dropped_rows(self) -> int:
        """Give how many completed steps are in the sums and in no row."""
        return self._handover.counts.dropped_rows

    @property
    def cpu_s(self) -> float:
        """Give the CPU seconds that this thread and the sampler's have used."""
        return self._own_cpu_s + self._sampler.cpu_s

    def start(self) -> None:
        """Start the thread, and the one that reads the machine; called on the training thread."""
        self._thread.start()
        self._sampler.start(threading.get_native_id())

    def add_event(self, event: facts.Event) -> None:
        """Queue an event for the next flush; may be called from any thread."""
        self._events.add(event)

    def add_scalar(self, scalar: facts.Scalar) -> None:
        """Queue a value of a step that was published already, for the next flush."""
        self._scalars.add(scalar)

    def _run(self) -> None:
        if self._stop.is_set():  # a signal ended the set-up while this thread was starting
            return
        with self._faults.guard("the head of the rank's file"):
            # At once, so that the file tells who it is however early the process dies.
            self._flush(even_if_empty=True)
        filling, took_s = self._handover.filling, 0.0
        while not self._stop.is_set():
            filling.wait(max(self._interval_s - took_s, self._interval_s * SHORTEST_WAIT))
            filling.clear()
            if not self._stop.is_set():
                began = time.monotonic()
                with self._faults.guard("rows of the last half second"):
                    self.flush()
                # What a slow disk took counts: a step must not wait for its row twice as long.
                took_s = time.monotonic() - began
                self._own_cpu_s = time.thread_time()

    def flush(self) -> None:
        """Book and write everything published so far."""
        self._flush(even_if_empty=False)

    def _flush(self, even_if_empty: bool) -> None:
        with self._flush_lock:
            more = True
            while more:
                booked, totals, more = self._book_batch()
                self._write(booked, totals, even_if_empty=even_if_empty)

    def stop(self) -> None:
        """Stop the threads; a second call does nothing."""
        self._stop.set()
        self._handover.filling.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sampler.close()

    def close(self) -> None:
        """Stop the threads, take in the tail, write the last flush and close the file."""
        self.stop()
        self._wait_for_device()
        with self._flush_lock:
            tail, ledger_totals = self._handover.close()
            totals = self._totals(ledger_totals)
            self._incidents.place_rest(totals.last_step + 1)
            self._write((), totals, tail, even_if_empty=True)
            left_open = self._writer.close()
        if left_open is not None:
            told = f"keeps its write-ahead log beside it ({left_open}); copy the -wal file along with it"
            self._faults.warn(
                f"{self._writer.location} {told}", recorded=f"the file of this rank {told}"
            )
        if self._scalars.on_their_way:
            missing = self._scalars.on_their_way
            self._faults.warn(f"{missing} logged values never arrived from the device")

    def _wait_for_device(self) -> None:
        """Flush what is left, and give device events that are on their way a moment to arrive."""
        deadline = time.monotonic() + FINAL_RESOLVE_S
        self._flush(even_if_empty=False)
        while self._pending and time.monotonic() < deadline:
            time.sleep(0.005)
            self._flush(even_if_empty=False)

    def _book_batch(self) -> tuple[list[BookedStep], facts.Totals, bool]:
        """Book as much as one transaction takes; the last value says whether more waits."""
        booked: list[BookedStep] = []
        for _ in range(SLICES_PER_WRITE):
            rows, ledger_totals, more = self._handover.replay()
            # Only now: so it takes in all that happened in these rows.
            with self._faults.guard("garbage collections and compilations"):
                self._incidents.look()
            for number, row in rows:
                with self._faults.guard("the row of a step"):
                    row.capture.rss_bytes = self._sampler.largest_resident_until(row.end_ns)
                    self._incidents.fill_in(number, row)
                    step = book_step(number, row, self._anchor.offset_ns, self._region_names)
                    booked.append(step)
                    self._scalars.add_of_step(number, step.scalars)
            if not more:
                break
        return booked, self._totals(ledger_totals), more

    def _write(
        self,
        booked: Sequence[BookedStep],
        totals: facts.Totals,
        tail: Sequence[facts.Span] = (),
        even_if_empty: bool = False,
    ) -> None:
        device = self._resolve()
        events = self._take_events(totals.last_step + 1)
        scalars = self._scalars.take()
        stages = self._stages.rows()
        newly_abandoned = totals.steps_abandoned != self._abandoned
        moment = time.monotonic()
        something = bool(
            booked or device or events or scalars or stages or newly_abandoned or even_if_empty
        )
        if not something and moment - self._written_at < HEARTBEAT_S:
            return
        self._written_at = moment
        if self._events.dropped:
            self._faults.warn(
                f"events beyond {MAX_EVENTS}, or {MAX_OF_A_KIND} of a kind, are counted and not kept"
            )
        self._writer.write(
            booked,
            totals,
            tail=tail,
            scalars=scalars,
            events=events,
            device_ns=device,
            meta=self._state.meta(self._handover.counts.largest_group),
            abandoned=totals.steps_abandoned if newly_abandoned else 0,
            readings=self._sampler.take(),
            stages=stages,
        )
        self._abandoned = totals.steps_abandoned
        if self._writer.fault is not None:
            why = f"any more ({self._writer.fault}); it keeps the rest in memory for the report"
            self._faults.warn(
                f"traintrace cannot write {self._writer.path} {why}",
                recorded=f"traintrace cannot write the file of this rank {why}",
            )
        self._retention.apply(totals.last_step)
        self._state.after_flush(totals)

    def _take_events(self, next_step: int) -> list[facts.Event]:
        """Give the events since the last flush; an occurrence without a step gets the next one."""
        seen = [(next_step, occurrence) for occurrence in self._handover.take_occurrences()]
        self._incidents.place_rest(next_step, keep=MAX_WAITING)
        for step, occurrence in seen + self._incidents.take():
            self._events.add_occurrence(occurrence, step, self._anchor.offset_ns)
        return self._events.take()

    def _resolve(self) -> list[tuple[int, Mapping[str, int]]]:
        if self._pending is None:
            return []
        measured = ("h2d", "forward", "backward", "optimizer")
        return [
            (step, {name: inside[accounts.number_of(name)] for name in measured})
            for step, inside in self._pending.resolve()
        ]

    def _totals(self, ledger: LedgerTotals) -> facts.Totals:
        return make_totals(
            ledger,
            self._handover.counts,
            offset_ns=self._anchor.offset_ns,
            foreign_calls=self._state.foreign_calls(),
            dropped_events=self._events.dropped + self._handover.occurrences_lost,
            gc_ns=self._incidents.gc_ns,
        )
