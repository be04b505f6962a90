"""The one piece of state a process shares: which session traces which thread."""

import os
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

from traintrace.faults import FaultReporter
from traintrace.recording.journal import Journal
from traintrace.stages.named import Named

if TYPE_CHECKING:
    from traintrace.stages.recorder import StageRecorder

# What a plugin says where a second trace would begin on one thread.
ALREADY_TRACED: Final = (
    "a trace is active on this thread already; the inner one records nothing. End the outer one first "
    "to trace this"
)


class ActiveSession(Protocol):
    """What code on the training thread may ask of the session that traces it."""

    journal: Journal
    faults: FaultReporter
    recording: bool

    def region_code(self, name: str) -> int:
        """Give the journal code that enters the region called `name`."""

    def log(self, name: str, value: object) -> None:
        """Log one value at the step that is open."""

    def leave_to_parent(self) -> None:
        """In a forked child: record nothing here."""


class AutomaticTracing(Protocol):
    """What traces a script that asked for nothing, as long as nobody knows the training better."""

    def make_way(self) -> None:
        """Begin nothing more, and end what was begun on the calling thread."""


class Registry:
    """Active sessions by the identity of the thread that opened them.

    Attributes:
        started: How many runs this process has started; ranks of a job start theirs in the same order.
        launched: A launcher of ours started this process, and makes the report when all ranks have
            ended; set by what it runs in the process.
        recorders: What records stages and queues in this process, the latest last; of a child process
            its parent's, which hand on.
        named: Queues that have a name and blocks of stages that are open; who records next takes them up.
        automatic: What traces scripts that asked for nothing; None without a launcher.
        raise_faults: Sessions that start from now on raise the tracer's own faults instead of
            reporting them; the project's tests set it.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, ActiveSession] = {}
        self.recorders: list[StageRecorder] = []
        self.started = 0
        self.launched = False
        self.named = Named()
        self.automatic: AutomaticTracing | None = None
        self.raise_faults = False

    def current(self) -> ActiveSession | None:
        """Give the session of the calling thread, if any."""
        return self._sessions.get(get_ident())

    def recorder(self) -> "StageRecorder | None":
        """Give what records stages and queues: of the calling thread's session, else of the latest."""
        thread = get_ident()
        own = [recorder for recorder in self.recorders if recorder.thread == thread]
        found = own or self.recorders
        return found[-1] if found else None

    def make_way(self) -> bool:
        """End automatic tracing, here and for good, since a trace was asked for; say if the thread is free.

        What was recorded on this thread until now becomes a run of its own if it has a completed step.
        """
        if self.automatic is not None:
            self.automatic.make_way()
        return self.current() is None

    def add(self, session: ActiveSession) -> None:
        """Note that `session` traces the calling thread."""
        self._sessions[get_ident()] = session

    def remove(self, session: ActiveSession) -> None:
        """Forget `session`, whichever thread asks."""
        for thread, other in list(self._sessions.items()):  # in one go: other threads add theirs
            if other is session:
                self._sessions.pop(thread, None)

    def disown_all(self) -> None:
        """In a forked child: the thread identities are the parent's, so nothing may record here."""
        for session in self._sessions.values():
            session.leave_to_parent()
        self._sessions.clear()
        for recorder in self.recorders:
            recorder.leave_to_parent()
        self.named.leave_to_parent()


REGISTRY = Registry()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY.disown_all)
