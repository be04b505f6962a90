"""The `with` blocks of a hand-written loop: one step, and the time of one account."""

from itertools import chain
from threading import get_ident
from types import TracebackType
from typing import Any

from torch import nn

from traintrace.accounts import BACKWARD
from traintrace.pytorch.loopstate import LoopState
from traintrace.pytorch.optimizer import parameters_of
from traintrace.recording.journal import OPEN
from traintrace.session import Session

# Give up waiting for an update after this many `step()` blocks without one in the whole run: longer
# than any usual accumulation, short enough to save most of a run whose updates cannot be seen.
PATIENCE_BLOCKS = 256


class StepBlock:
    """One `step()` block; the same object serves every step.

    Attributes:
        is_used: True once a block was entered.
    """

    __slots__ = (
        "_awaits_update",
        "_journal",
        "_loop",
        "_open",
        "_patience",
        "_session",
        "_version",
        "_watched",
        "is_used",
    )

    def __init__(
        self,
        session: Session,
        loop: LoopState,
        model: nn.Module | None,
        optimizer: Any,
        awaits_update: bool,
    ) -> None:
        self._session = session
        self._journal = session.journal
        self._loop = loop
        self._awaits_update = awaits_update
        self._patience = PATIENCE_BLOCKS
        self._open = session.journal.marker(OPEN)
        # An update inside a compiled function runs no hook, but it does change the parameters.
        self._watched = _first_parameter(model, optimizer)
        self._version = 0 if self._watched is None else self._watched._version
        self.is_used = False

    def __enter__(self) -> None:
        session = self._session
        if get_ident() != self._journal.owner:
            return
        capture = session.capture
        if capture.ended:
            capture = session.current_capture()
        if capture.updated:  # the update of the step before came after its block
            capture.complete()
            capture = session.capture
        self.is_used = self._loop.inside_step = True
        if not capture.micro_batches:
            if session.open_memory is not None:
                session.open_memory()
            self._open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self._session
        if get_ident() != self._journal.owner:
            return
        loop = self._loop
        is_innermost, loop.inside_step = loop.inside_step, False
        capture = session.capture
        if capture.ended:
            capture = session.current_capture()
        if kind is not None:
            session.add_event("exception", kind.__name__)
            capture.abort()
            return
        if is_innermost and not loop.has_loader:
            capture.micro_batches += 1
        if capture.updated or not self._awaits_update or self._has_changed():
            self._patience = -1
            if loop.has_loader and not loop.has_seen_backward:
                loop.has_seen_backward = self._journal.holds(BACKWARD)
            session.end_step(capture, True)
        elif self._patience > 0:
            self._wait_for_update()

    def _has_changed(self) -> bool:
        """Say whether the parameters were changed in place since the last time this was asked."""
        if self._watched is None or self._session.update_seen:
            return False
        before, self._version = self._version, self._watched._version
        return self._version != before

    def _wait_for_update(self) -> None:
        self._patience -= 1
        if self._patience == 0:
            self._awaits_update = False
            self._session.faults.warn(
                f"no optimizer step was seen in {PATIENCE_BLOCKS} step() blocks; "
                "each block counts as a step from now on"
            )


def _first_parameter(model: nn.Module | None, optimizer: Any) -> nn.Parameter | None:
    """Give an ordinary parameter that updates change; None where parameters are sharded or lazy."""
    of_model = () if model is None else (p for p in model.parameters() if p.requires_grad)
    first = next(chain(of_model, parameters_of(optimizer)), None)
    if type(first) is not nn.Parameter or first.is_inference():
        return None
    return first


class Charged:
    """Charges the time inside a `with` block to one account, if the training thread enters it."""

    __slots__ = ("_account", "_loop", "_pauses", "_session")

    def __init__(
        self, session: Session, account: int, loop: LoopState, pauses: bool = False
    ) -> None:
        self._session = session
        self._account = account
        self._loop = loop
        self._pauses = pauses

    def __enter__(self) -> None:
        if get_ident() == self._session.journal.owner:
            self._loop.paused += self._pauses
            self._session.journal.write(self._account)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if get_ident() == self._session.journal.owner:
            self._loop.paused -= self._pauses
            self._session.journal.write(~self._account)
