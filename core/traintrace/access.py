"""`traintrace.region` and `traintrace.log`: reach the active session from anywhere in user code."""

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from traintrace.recording.journal import Journal
from traintrace.registry import REGISTRY

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
