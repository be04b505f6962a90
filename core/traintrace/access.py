"""`traintrace.region`, `log`, `stage` and `queue`: reach the active session from anywhere in user code."""

import os
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from traintrace.recording.journal import Journal
from traintrace.registry import REGISTRY
from traintrace.runs.identity import RUN_VARIABLE

if TYPE_CHECKING:
    from traintrace.stages.recorder import StageRecorder
    from traintrace.stages.stage import Stage

AnyQueue = TypeVar("AnyQueue")

_NOTHING: AbstractContextManager[None] = nullcontext()


class _Region:
    """Charges the time inside a `with` block to a named region."""

    __slots__ = ("_code", "_journal")

    def __init__(self, journal: Journal, code: int) -> None:
        self._journal = journal
        self._code = code

    def __enter__(self) -> None:
        self._journal.write(self._code)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._journal.write(self._code + 1)


def region(name: str) -> AbstractContextManager[None]:
    """Charge the time inside the `with` block to a region called `name`.

    The time is booked under `user` (or stays in the phase that it is part of) and is listed by name.
    Does nothing when no session traces the calling thread.
    """
    session = REGISTRY.current()
    if session is None or not session.recording:
        return _NOTHING
    return _Region(session.journal, session.region_code(name))


def log(**values: object) -> None:
    """Log numbers at the step that is open, e.g. `log(loss=loss, lr=0.1)`.

    Numbers and CPU tensors are read at once; tensors on a device are copied without waiting.
    Does nothing when no session traces the calling thread.
    """
    session = REGISTRY.current()
    if session is None or not session.recording:
        return
    with session.faults.guard(f"the logged values {', '.join(values)}"):
        for name, value in values.items():
            session.log(name, value)


def stage(name: str) -> "Stage":
    """Work in a stage of a pipeline: `with traintrace.stage("target-forward") as stage:` around a worker's loop.

    For threads, processes and asyncio tasks; each that is inside the block is a worker of the stage, and says
    `stage.done(items=1, tokens=None)` when it has done something. It records into the session that is active in
    this process, whichever thread that traces, or into the parent's in a child process that was forked, got
    a followed queue, or belongs to a `traintrace run`. Where there is none it does nothing; who is still inside
    the block when a session begins is a worker from then on.
    """
    from traintrace.stages.stage import Stage  # loaded by those who need it

    return Stage(None, name, _recorder)


def queue(queue: AnyQueue, name: str) -> AnyQueue:
    """Count what goes through a queue between stages, and how long workers wait for it.

    Use what this gives. It is the same object and behaves the same; only for a `queue.SimpleQueue`, which is
    written in C, it is another one that shares its items. Where no run is traced the queue is left alone, and
    followed from the beginning of each later one on, as long as it lives.
    """
    from traintrace.stages.queues import name_queue

    return name_queue(queue, name, _recorder)


def _recorder() -> "StageRecorder | None":
    """Give what records stages in this process; a spawned child of a launched run finds its parent's."""
    found = REGISTRY.recorder()
    if found is None and RUN_VARIABLE in os.environ:
        from traintrace.stages.pickling import parents_recorder

        found = parents_recorder(os.environ[RUN_VARIABLE])
    return found
