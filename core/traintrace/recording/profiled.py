"""A profiler's trace of a few steps, written beside what the tracer itself records.

Steps are watched only where this was asked for, and only until the last of them has ended. What starting, stopping
and writing take lies between steps and is booked as `callbacks`: it is no part of any step, and an event says how
much of it that is. The profiled steps themselves are slower than others and say so by a flag.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from traintrace.accounts import CALLBACKS
from traintrace.facts import PROFILED
from traintrace.faults import FaultReporter
from traintrace.ports import StepProfiler
from traintrace.recording.journal import Journal
from traintrace.recording.steps import StepCapture
from traintrace.runs.identity import Identity

SIGNAL: Final = "profile"
TRACES_FOLDER: Final = "traces"
NO_PROFILER: Final = "this integration brings no profiler"
NO_FOLDER: Final = "the run is published at a URL, where no trace is sent"


class ProfiledSession(Protocol):
    """What is asked of a session whose steps are profiled."""

    journal: Journal
    faults: FaultReporter
    unmeasured: dict[str, str]
    recording: bool
    undo: ExitStack

    @property
    def run_folder(self) -> Path | None:
        """Folder of the run; None if it is a URL."""

    @property
    def steps(self) -> int:
        """Number of steps completed so far."""

    def add_event(self, kind: str, detail: str, duration_ns: int | None = None) -> None:
        """Note something that happened once, and how long it took."""

    def end_step(self, capture: StepCapture, completed: bool) -> None:
        """End the step of `capture`."""

    def end_steps_by(self, end: Callable[[StepCapture, bool], None]) -> None:
        """Let `end` end steps from now on."""


def trace_file(folder: Path, rank: int, attempt: int) -> Path:
    """Give where the trace of a rank is kept in the folder of its run."""
    again = f".a{attempt}" if attempt else ""
    return folder / TRACES_FOLDER / f"rank-{rank:05d}{again}.json.gz"


def profile_steps(
    session: ProfiledSession,
    steps: tuple[int, int],
    make: Callable[[], StepProfiler] | None,
    identity: Identity,
) -> None:
    """Profile the steps of a session from the first to the last of `steps`, or note why that cannot be.

    Args:
        session: It may have begun; steps that have passed are then missed.
        steps: First and last step, by the run's numbers.
        make: Makes the profiler; None where the integration has none.
        identity: Whose trace it is.
    """
    folder, first = session.run_folder, session.steps + 1
    if make is None:
        session.unmeasured[SIGNAL] = NO_PROFILER
    elif folder is None:
        session.unmeasured[SIGNAL] = NO_FOLDER
    elif isinstance(getattr(session.end_step, "__self__", None), ProfiledSteps):
        session.unmeasured[SIGNAL] = "steps that were chosen before are not over"
    elif steps[0] < first:
        session.unmeasured[SIGNAL] = f"step {steps[0]} had begun when it was asked for"
    else:
        path = trace_file(folder, identity.rank, identity.attempt)
        session.undo.callback(ProfiledSteps(session, make(), steps, path).close)


class ProfiledSteps:
    """Profiles the steps from `first` to `last` of one session, once.

    Args:
        session: The session; its steps are watched from here on.
        profiler: What profiles.
        steps: First and last step, by the run's numbers.
        path: Where the trace is written.
    """

    def __init__(
        self, session: ProfiledSession, profiler: StepProfiler, steps: tuple[int, int], path: Path
    ) -> None:
        self._session, self._profiler, self._path = session, profiler, path
        self._first, self._last = steps
        self._end = session.end_step
        self._runs = False
        self._spent_ns = 0  # between steps, so far; and since when such a stretch lasts
        self._since_ns: int | None = None
        session.end_steps_by(self._end_step)
        if session.steps + 1 == self._first:
            self._start()

    def _end_step(self, capture: StepCapture, completed: bool) -> None:
        """End a step as ever, and look if the profile begins or ends there."""
        session = self._session
        if self._runs and not self._profiler.why_stopped:
            capture.flags |= PROFILED
        before = session.steps
        self._end(capture, completed)
        if session.steps == before or not session.recording:
            return
        if self._runs or session.steps + 1 == self._first:
            session.journal.write(CALLBACKS)
            self._since_ns = session.journal.now()
            self._between(session.steps)
            self._spent_ns += session.journal.now() - self._since_ns
            self._since_ns = None
            session.journal.write(~CALLBACKS)
        elif session.steps >= self._last:
            session.end_steps_by(self._end)

    def _between(self, completed: int) -> None:
        if not self._runs:
            self._start()
        elif completed >= self._last or self._profiler.why_stopped:
            self.close()
        else:
            with self._session.faults.guard("the marks of steps in the trace"):
                self._profiler.mark(completed + 1)

    def _start(self) -> None:
        self._runs = True
        with self._session.faults.guard("the profile of the chosen steps"):
            why_not = self._profiler.start(self._first)
            if why_not is not None:
                self._session.unmeasured[SIGNAL] = why_not
                self._give_up()

    def close(self) -> None:
        """Stop, and write what there is; the session may end before the last step. A second call does nothing."""
        session, none_ended = self._session, self._session.steps < self._first
        if none_ended:
            session.unmeasured.setdefault(SIGNAL, f"the run ended before step {self._first} did")
        if not self._runs:
            return
        self._give_up()
        with session.faults.guard("the trace of the profiled steps"):
            why_stopped = self._profiler.why_stopped
            if why_stopped is not None:
                session.unmeasured[SIGNAL] = why_stopped
                return
            self._profiler.finish(None if none_ended else self._path)
            if not none_ended:
                now_ns = session.journal.now()
                spent_ns = self._spent_ns + (
                    0 if self._since_ns is None else now_ns - self._since_ns
                )
                session.add_event(SIGNAL, f"steps {self._first} to {session.steps}", spent_ns)

    def _give_up(self) -> None:
        """Watch no more steps: from here on each costs what it costs without this."""
        self._runs = False
        self._session.end_steps_by(self._end)
