"""What one process records of its stages and queues: who works, what they wrote, and handing it on."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from traintrace.faults import FaultReporter
from traintrace.recording.journal import Clock
from traintrace.stages.blocks import Block
from traintrace.stages.held import held
from traintrace.stages.marks import END, GET_ENDED, OPERATIONS, PLACED, PUT_ENDED, WIDTH
from traintrace.stages.places import MAX_WORKERS, Places
from traintrace.stages.queuebook import QueueBook
from traintrace.stages.records import Update, WorkerUpdate
from traintrace.stages.worker import Worker

# A journal of this many values is folded by its own thread if nobody else came to do it; some milliseconds of work.
FULL: Final = 3 * 4_096
MAX_QUEUES: Final = 1_000


class StageRecorder:
    """Holds the workers and queues of one process. `enter`, `take_up` and queues are for any thread.

    Attributes:
        now: The clock [ns, monotonic].
        thread: The thread whose session it is.
        recording: False once the session has ended; then nothing is written.
        outside: The journal of operations outside stages, by any thread.
        is_child: This is a child process of the one whose session it is.
        inbox: The folder into which child processes hand on what they record; None if there is none.
        when_used: Called before the first stage is opened or queue is followed; None once it was.
        undo: By queue, what gives it back as it was.
        places: Who works.
    """

    def __init__(
        self,
        faults: FaultReporter,
        now: Clock = time.perf_counter_ns,
        *,
        inbox: Path | None = None,
        when_used: Callable[[], None] | None = None,
        is_child: bool = False,
    ) -> None:
        self.faults = faults
        self.now = now
        self.recording, self.thread = True, threading.get_ident()
        self.is_child = is_child
        self.outside: list[int] = []
        self.inbox = inbox
        self.when_used = self._hand_on if is_child else when_used
        self.undo: dict[int, Callable[[], None]] = {}
        self._ended_ns: int | None = None
        self.places = Places(self)
        self._books: list[QueueBook] = []
        self._renew_locks()

    def _renew_locks(self) -> None:
        self.naming = threading.RLock()  # held while a queue gets its name
        self._taking = threading.Lock()
        self._noting = threading.Lock()  # held while one journal's moments are noted

    # -- who works -------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Make a worker of who has just entered a block."""
        self.use()
        self._warn_unless(self.places.enter(block))

    def take_up(self, block: Block) -> None:
        """Make a worker of who is inside a block since before the session."""
        self.use()
        self._warn_unless(self.places.take_up(block))

    def _warn_unless(self, there_is_a_place: bool) -> None:
        if not there_is_a_place:
            self.faults.warn(f"more than {MAX_WORKERS} workers at once: the rest is not recorded")

    def number_of_queue(self, name: str) -> int | None:
        """Give the number under which the queues of that name are counted; None if there are too many."""
        self.use()
        with self.naming:
            for number, book in enumerate(self._books):
                if book.name == name:
                    return number
            if len(self._books) < MAX_QUEUES:
                self._books.append(QueueBook(name))
                return len(self._books) - 1
        self.faults.warn(f"more than {MAX_QUEUES} names of queues: the rest is not recorded")
        return None

    def add_queue(self, number: int, capacity: int | None, held: int) -> None:
        """Note that one more queue has the name of that number, and holds `held` items."""
        self._books[number].add_queue(capacity, held)

    def use(self) -> None:
        """Get ready to record; a second call does nothing."""
        if self.when_used is not None:
            use, self.when_used = self.when_used, None
            use()

    # -- folding ---------------------------------------------------------------------------------

    def relieve(self, worker: Worker | None = None) -> None:
        """Keep a journal bounded; called by whoever wrote much, for what it wrote itself, and never waits.

        Args:
            worker: Whose journal is full; None for the one of operations outside stages.
        """
        with (
            held(self._noting if worker is None else worker.folding, wait=False) as free,
            self.faults.guard("what stages did in the last second"),
        ):
            if free and worker is None:
                self._fold_outside()
            elif free and worker is not None:
                self._fold(worker, wait=False)

    def take(self) -> Update:
        """Fold what was written and hand on what is new."""
        with self._taking:
            moment = self.now() if self._ended_ns is None else self._ended_ns
            updates = []
            for number, worker in enumerate(list(self.places.workers)):
                # One journal at a time, so that nobody's grows while others' are folded.
                with held(worker.folding, wait=True) as free:
                    update = self._update(number, worker, moment) if free else None
                if update is not None:
                    updates.append(update)
            with held(self._noting, wait=True) as free:
                if not free:
                    return Update(updates)
                self._fold_outside()
                queues = [new for book in self._books if (new := book.take()) is not None]
            return Update(updates, queues)

    def _update(self, number: int, worker: Worker, moment: int) -> WorkerUpdate | None:
        # First, so that what has ended meanwhile has its entry.
        waits = worker.waits_since, worker.waits_for
        self._fold(worker, wait=True)
        if worker.ledger.is_open and self._ended_ns is not None:
            self._end_worker(worker, *waits)
        if not worker.changed or not worker.ledger.start_ns:
            return None
        worker.changed = worker.ledger.is_open
        balance = worker.ledger.balance(moment, *waits)
        return worker.update(number, balance, [book.name for book in self._books])

    def _fold(self, worker: Worker, *, wait: bool) -> None:
        entries, ledger = self._until_end(worker.cut(), WIDTH), worker.ledger
        if entries:
            worker.changed = True
            ledger.replay(entries)
        if ledger.moments:
            with held(self._noting, wait=wait) as free:
                if free:  # else the next one notes them
                    self._note(ledger.moments, worker.stage)

    def _fold_outside(self) -> None:
        taken = self.outside[:]
        del self.outside[: len(taken)]
        outside = self._until_end(taken, 2)
        moments: dict[int, list[int]] = {}
        for code, moment in zip(outside[1::2], outside[::2], strict=True):
            moments.setdefault(code, []).append(moment)
        self._note(moments, "")

    def _note(self, moments: dict[int, list[int]], stage: str) -> None:
        for code, some in moments.items():
            self._books[code // OPERATIONS - 1].note(code % OPERATIONS >= PLACED, some, stage)
        moments.clear()

    def _until_end(self, taken: list[int], width: int) -> list[int]:
        """Give what was taken of a journal; after the end, nothing that is later than it."""
        if self._ended_ns is not None:
            for place in range(0, len(taken), width):
                # An operation's second value is its end; of what is done it is no moment.
                until = taken[place + 1] if taken[place + width - 1] >= OPERATIONS else 0
                if max(taken[place], until) > self._ended_ns:
                    return taken[:place]
        return taken

    def _end_worker(self, worker: Worker, waits_since: int, waits_for: int) -> None:
        """Let a worker that is at work end with the session, in the operation that it is in."""
        ended = self._ended_ns or 0
        if worker.ledger.last_ns < waits_since < ended:
            given_up = waits_for - waits_for % OPERATIONS
            given_up += PUT_ENDED if waits_for % OPERATIONS >= PLACED else GET_ENDED
            worker.ledger.replay((waits_since, ended, given_up))
        worker.ledger.replay((ended, ended, END))

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Record nothing after this instant, and give the queues back as they were."""
        if not self.recording:
            return
        self._ended_ns, self.recording = self.now(), False
        self.places.disown()
        undo, self.undo = self.undo, {}
        for restore in list(undo.values()):
            with self.faults.guard("a queue stays followed"):
                restore()

    def leave_to_parent(self) -> None:
        """In a forked child: what was written so far is the parent's, and so are its threads."""
        self._renew_locks()
        self.places.leave_to_parent()
        self.outside.clear()
        for book in self._books:
            book.forget()
        self.is_child, self.when_used = True, self._hand_on

    def _hand_on(self) -> None:
        """In a child process: begin to hand on to its parent's rank."""
        from traintrace.stages.delivery import Delivery  # only such a process needs it

        if self.inbox is not None:
            Delivery(self, self.inbox).start()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as nothing that records."""
        return _ended_recorder, ()


def _ended_recorder() -> StageRecorder:
    recorder = StageRecorder(FaultReporter())
    recorder.end()
    return recorder
