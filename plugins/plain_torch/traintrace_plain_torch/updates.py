"""Steps of a loop that asks no loader for its batches: each ends with its update.

Hand-written data functions cannot be seen. Where nothing else tells one step from the next, the update
does: all that comes after it, a batch or an evaluation, is in the step of the next one.
"""

from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from traintrace.accounts import BACKWARD
from traintrace.pytorch.graphs import outside_graphs
from traintrace.pytorch.loopstate import LoopState
from traintrace.recording.journal import OPEN, UNUSED
from traintrace.session import Session

NO_LOADER: Final = (
    "no DataLoader was asked for the batches; a step lasts from one update to the next, with all that the "
    "loop does in between. Use `with trace(model, optimizer) as tracer:` and tracer.batches(...)"
)


def end_steps_at_updates(session: Session, loop: LoopState) -> Iterator[Callable[[], None]]:
    """Install what ends a step after each update, until a loader is asked; give what undoes it."""
    steps = _Steps(session, loop)
    yield register_optimizer_step_post_hook(outside_graphs(steps.updated)).remove


class _Steps:
    """Where several optimizers take turns, steps end with one of them: the first, as long as it steps."""

    def __init__(self, session: Session, loop: LoopState) -> None:
        self._session = session
        self._loop = loop
        self._ends: int | None = None
        self._others: set[int] = set()
        self._open = session.journal.marker(OPEN)
        self._take_back_batches, loop.take_back = loop.take_back, self.take_back

    def updated(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimizer has stepped."""
        session = self._session
        if self._loop.has_loader or get_ident() != session.journal.owner:
            return
        if torch.compiler.is_compiling():
            return
        capture = session.current_capture()
        capture.updated = False  # an end of the script ends no step of ours
        own = id(optimizer)
        if self._ends is not None and own != self._ends and own not in self._others:
            self._others.add(own)
            return
        self._others.clear()
        if self._ends is None:  # what is before the first update is a part of a step
            session.unmeasured["input_wait"] = NO_LOADER
        else:
            capture.micro_batches = 0  # nobody knows how many backwards are one batch's
            session.end_step(capture, True)
        self._ends = own
        if session.recording:
            if session.open_memory is not None:
                session.open_memory()
            self._open()

    def take_back(self) -> None:
        """The span ends: what follows the last update and trains nothing is no step that was dropped."""
        session = self._session
        if self._loop.has_loader:
            if self._take_back_batches is not None:
                self._take_back_batches()
        elif not session.journal.holds(BACKWARD):
            session.journal.write(UNUSED)
            session.capture.ended = True  # never a step: nothing to publish and nothing to abort
            session.current_capture()
