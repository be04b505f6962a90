"""A worker: the journal that whoever holds its place writes, and how code finds the one it runs in."""

import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol

from traintrace.faults import FaultReporter
from traintrace.recording.journal import Clock
from traintrace.stagefacts import WorkerKind
from traintrace.stages.ledger import Balance, WorkerLedger
from traintrace.stages.marks import END, WIDTH
from traintrace.stages.records import WorkerUpdate

if TYPE_CHECKING:
    import asyncio

NOBODY: Final = -1


class Recording(Protocol):
    """What a worker knows of the recorder that it belongs to.

    Attributes:
        now: The clock [ns, monotonic].
        recording: False once the session has ended.
        is_child: It records in a child process of the one whose session it is.
    """

    @property
    def now(self) -> Clock: ...  # noqa: D102 - see above

    @property
    def recording(self) -> bool: ...  # noqa: D102 - see above

    @property
    def is_child(self) -> bool: ...  # noqa: D102 - see above

    @property
    def faults(self) -> FaultReporter: ...  # noqa: D102 - tells what is lost

    def relieve(self, worker: "Worker | None" = None) -> None:
        """Keep a journal bounded."""


class Worker:
    """One place at work in a stage. What is written to it is appended; nothing is computed.

    Attributes:
        entries: Its journal since it was folded last. cut_ns: moment of the last entry that was folded.
        folding: Held by who folds it.
        owner: The thread that holds the place; NOBODY if it is free or its session has ended.
        task: The asyncio task that does, if it is one.
        running_task: What then tells which task runs; it raises where none can.
        outer: The worker whose stage this one's lies in.
        waits_since, waits_for: When the operation on a queue began that it is in, if it is in one, and the
            code of that with any outcome. It has ended if there is an entry from then on.
        waiting_task: The task that waits for the worker's own in its stead, if one does.
        succeeded: The queue's method that never waits had success since then.
        changed: There is something to hand on.
    """

    __slots__ = (
        "changed",
        "cut_ns",
        "entries",
        "folding",
        "kind",
        "ledger",
        "outer",
        "owner",
        "recorder",
        "running_task",
        "stage",
        "succeeded",
        "task",
        "unmeasured",
        "waiting_task",
        "waits_for",
        "waits_since",
    )

    def __init__(
        self, recorder: Recording, stage: str, kind: WorkerKind, ledger: WorkerLedger
    ) -> None:
        self.recorder = recorder
        self.stage = stage
        self.kind = kind
        self.ledger = ledger
        self.entries: list[int] = []
        self.folding = threading.Lock()
        self.owner = NOBODY
        self.task: asyncio.Task[object] | None = None
        self.running_task: Callable[[], object] = running_task
        self.waiting_task: object = None
        self.outer: Worker | None = None
        self.unmeasured = ""
        self.waits_since = self.waits_for = self.cut_ns = 0
        self.changed = self.succeeded = False

    def mark(self, code: int) -> None:
        """Write a code at this instant."""
        now = self.recorder.now()
        self.entries.extend((now, now, code))

    def hold(self, thread: int, task: "asyncio.Task[object] | None", code: int) -> None:
        """A thread, or a task in it, takes the place; `code` is START or FOUND."""
        self.mark(code)
        if task is not None:
            self.running_task = sys.modules["asyncio"].current_task
        self.owner, self.task, self.changed = thread, task, True

    def leave(self) -> None:
        """The place is free."""
        self.mark(END)
        self.disown()

    def is_held(self) -> bool:
        """Say whether the calling thread, or the task that runs in it, holds the place."""
        if self.owner != get_ident():
            return False
        if self.task is None:
            return True
        try:
            return self.running_task() is self.task
        except RuntimeError:  # no event loop runs in this thread
            return False

    def cut(self) -> list[int]:
        """Take what was written, to fold it."""
        taken = self.entries[:]
        if taken:
            self.cut_ns = taken[-WIDTH]  # before they are gone
        del self.entries[: len(taken)]
        return taken

    def waits(self, code: int) -> bool:
        """Say whether the operation of that code, which began at `waits_since`, has not ended."""
        if self.waits_for != code:
            return False
        try:
            latest_ns = self.entries[-WIDTH]
        except IndexError:
            # Not `ledger.last_ns`: what is being folded has been cut off, and is not replayed yet.
            latest_ns = self.cut_ns
        return self.waits_since > latest_ns

    def disown(self) -> None:
        """Let nobody write any more."""
        self.owner, self.task, self.outer = NOBODY, None, None

    def update(self, number: int, balance: Balance, names: Sequence[str]) -> WorkerUpdate:
        """Hand on the worker as it stands, and its new services.

        Args:
            number: Its number in this process.
            balance: Its accounts.
            names: Names of the queues by number.
        """
        ledger = self.ledger
        services = list(ledger.services)
        ledger.services.clear()
        return WorkerUpdate(
            number,
            self.stage,
            self.kind,
            ledger.start_ns,
            balance.end_ns,
            balance.account_ns,
            {names[queue]: ns for queue, ns in balance.starved_ns.items()},
            {names[queue]: ns for queue, ns in balance.blocked_ns.items()},
            ledger.items,
            ledger.tokens,
            ledger.service_count,
            ledger.busy_sum_ns,
            float(ledger.busy_sum_squares_ns2),
            ledger.counts,
            self.unmeasured,
            services,
        )


def running_task() -> "asyncio.Task[object] | None":
    """Give the asyncio task that the calling code runs in, if any."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()  # type: ignore[no-any-return]
    except RuntimeError:  # no event loop runs in this thread
        return None


def is_waited_for(task: "asyncio.Task[object]", by: "asyncio.Task[object]") -> bool:
    """Say whether `by` is inside an `asyncio.wait_for` that made `task` of a coroutine and waits for it."""
    innermost: Any = by.get_coro()
    while inspect.iscoroutine(innermost) and inspect.iscoroutine(innermost.cr_await):
        innermost = innermost.cr_await
    wait_for: Any = sys.modules["asyncio"].wait_for
    if not inspect.iscoroutine(innermost) or innermost.cr_code is not wait_for.__code__:
        return False
    return innermost.cr_frame is not None and innermost.cr_frame.f_locals.get("fut") is task
