"""Automatic tracing: one span for a script that trains and says nothing about it.

    torch loaded        `Optimizer.__init__` is watched
    optimizer made      `DataLoader.__iter__` and `torch.autograd.backward` are watched too
    first of these      the span begins, with the hooks of any other loop; they are watched no more
    end of the script   the span ends; without a completed step nothing is left of it

What came before the span is not recorded. Whatever knows the loop better goes first: see `make_way`.
"""

import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from threading import get_ident
from typing import Any, Final

import torch

from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.pytorch.loopstate import LoopState, end_last_step, end_updated_step
from traintrace.pytorch.setup import describe_model
from traintrace.pytorch.wrapping import make_iterator
from traintrace.registry import REGISTRY
from traintrace.session import Session, status_of
from traintrace_plain_torch.following import Following
from traintrace_plain_torch.readahead import trace_read_ahead
from traintrace_plain_torch.scouts import watch_for_training, watch_optimizers, watch_read_ahead
from traintrace_plain_torch.seams import install_on_loop, new_session
from traintrace_plain_torch.spawned import trace_spawned
from traintrace_plain_torch.updates import end_steps_at_updates

NO_STEP: Final = (
    "the script trained, but no step of it could be told from the next; nothing was recorded. "
    "Put `with trace(model, optimizer) as tracer:` around its loop and tracer.step() around each step"
)


class Automatic:
    """Traces the thread of this process that trains first; a forked child is left alone."""

    def __init__(self, options: TraceOptions) -> None:
        self._options = options
        self._process = os.getpid()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._threads: set[int] = set()  # those on which optimizers were made
        self._loop = LoopState()
        self._session: Session | None = None
        self._following: Following | None = None
        self._is_over = False
        self._watch = ExitStack()  # what lasts until the end
        self._scouts = ExitStack()  # what lasts until the span begins
        self._read_ahead: set[str] = set()  # modules of loaders that are seen to

    def watch(self) -> None:
        """Wait for a script that trains."""
        REGISTRY.automatic = self
        _keep(self._watch, watch_optimizers(self))
        _keep(self._watch, trace_spawned(self._options))

    # -- what the scouts report ------------------------------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """Note an optimizer; the first one shows that the script may train."""
        if self._is_over or os.getpid() != self._process:
            return
        session = self._session
        with FaultReporter(REGISTRY.raise_faults).guard("the models that train"):
            if session is None:
                if not self._threads:
                    _keep(self._scouts, watch_for_training(self))
                self._threads.add(get_ident())
                self._optimizers.add(optimizer)
                _keep(self._watch, watch_read_ahead(self, self._read_ahead))
            elif self._following is not None and self._is_here(session):
                self._following.add([optimizer])

    def begin(self, by_request: bool) -> bool:
        """Begin the span if this thread trains and is free; say whether it has begun at this instant.

        Args:
            by_request: A loader was asked for an iterator. That may also be a thread that fetches
                batches for others; so it has to be one that made an optimizer.
        """
        if self._session is not None or self._is_over or os.getpid() != self._process:
            return False
        if not self._optimizers or (by_request and get_ident() not in self._threads):
            return False
        if REGISTRY.current() is not None:
            return False
        self._scouts.close()
        with FaultReporter(REGISTRY.raise_faults).guard("the whole trace"):
            self._open(by_request)
        self._is_over = self._session is None
        return self._session is not None

    def batches(self, make: Callable[[Any], Any], loader: Any) -> Any:
        """Give what a loop over a loader that reads ahead is to iterate."""
        session, loop = self._session, self._loop
        if session is None or not self._is_here(session) or loop.paused:
            return make(loader)
        end_updated_step(session, loop)
        model = loop.model
        if not torch.is_grad_enabled() or not (model is None or model.training):
            return make(loader)
        loop.paused += 1  # it may fetch a batch already
        try:
            iterator = make_iterator(make, loader, session.journal)
        finally:
            loop.paused -= 1
        traced = iterator
        with session.faults.guard("the batches of a loader"):
            traced = trace_read_ahead(iterator, loader, session, loop)
        return traced

    def _is_here(self, session: Session) -> bool:
        return session.recording and get_ident() == session.journal.owner

    # -- the span --------------------------------------------------------------------------------

    def _open(self, by_request: bool) -> None:
        session = new_session(Session, self._options)
        with session.setting_up():
            optimizers = list(self._optimizers)
            install_on_loop(session, None, self._loop)  # which would keep an optimizer
            following = Following(session, self._loop)
            session.undo.callback(following.close)
            following.add(optimizers)
            session.setup = describe_model(self._loop.model)
            if not by_request:
                _keep(session.undo, end_steps_at_updates(session, self._loop))
            session.close_at_exit = self._end
            session.begin()
        self._session, self._following = session, following

    def make_way(self) -> None:
        """End what is traced on this thread, and begin nothing more: a trace was asked for."""
        self._is_over = True
        self._stop_watching()
        session = self._session
        if session is not None and get_ident() == session.journal.owner:
            self._end(None)

    def close(self) -> None:
        """End all of it, wherever it is."""
        self._is_over = True
        self._stop_watching()
        if REGISTRY.automatic is self:
            REGISTRY.automatic = None
        self._end(None)

    def _stop_watching(self) -> None:
        self._scouts.close()
        self._watch.close()

    def _end(self, error: BaseException | None) -> None:
        """End the span; what trained nothing leaves no run."""
        self._is_over = True
        self._stop_watching()
        session = self._session
        if session is None or session.finished or os.getpid() != self._process:
            return
        with session.faults.guard("the end of the run"):
            if error is None:
                end_last_step(session, self._loop)
            if session.steps or error is not None:
                session.finish(status_of(error), error)
            else:
                self._session = None
                if session.update_seen:
                    session.faults.warn(NO_STEP)
                session.discard()


def _keep(stack: ExitStack, undos: Iterable[Callable[[], None]]) -> None:
    for undo in undos:
        stack.callback(undo)
