"""See the batch requests of torch's own loaders in a loop that nobody changed.

The base class of the loaders' iterators has its `__next__` replaced for the span, so that loaders and
iterators keep their types. A request is a training request if gradients are on; one in evaluation mode
is doubtful, and what sees no backward is taken back (`traintrace.pytorch.unused`). A request for other
data ends a step that has had its update.

A loop that names its loader needs none of that, except for what torch's loader does inside a wrapper.

Not seen are iterables that are no DataLoader, and a loader that is read ahead by an iterator around it
(accelerate's): its requests come one batch early, and the last step of an epoch makes none.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import torch
from torch.utils.data import DataLoader, dataloader

from traintrace.patching import replace_attribute
from traintrace.pytorch.loopstate import NOTHING, WRAPPER, LoopState, end_updated_step
from traintrace.pytorch.passes import Pass
from traintrace.pytorch.reasons import INSIDE_A_STEP, NO_REQUEST, NOT_TRAINING, READS_AHEAD
from traintrace.pytorch.setup import describe_iterator, known_length
from traintrace.pytorch.sizes import SizeReader
from traintrace.pytorch.unused import UnusedBatches
from traintrace.pytorch.wrapping import READS_AHEAD_IN, fetch_for_wrapper, make_iterator
from traintrace.session import Session


def trace_loaders(
    session: Session, loop: LoopState, optimizer: Any
) -> Iterator[Callable[[], None]]:
    """Install what charges the training requests of torch's loaders; give what undoes it.

    Args:
        session: Where requests are written and steps end.
        loop: Shared with the rest of the tracer; nothing is seen while it is paused, or once it is
            explicit.
        optimizer: Whose parameters tell whether batches were used, where no model does.
    """
    session.unmeasured["input_wait"] = NO_REQUEST
    base: Any = getattr(dataloader, "_BaseDataLoaderIter", None)
    if base is None:
        return
    watch = _Watch(session, loop, optimizer)
    yield replace_attribute(base, "__next__", _watched_next(watch, base.__next__))
    yield replace_attribute(DataLoader, "__iter__", _watched_iter(watch, DataLoader.__iter__))
    yield watch.passes.clear


class _Watch:
    """What the two replacements share.

    Attributes:
        passes: The pass of each live iterator, by the iterator's `id`.
    """

    def __init__(self, session: Session, loop: LoopState, optimizer: Any) -> None:
        self.session = session
        self.loop = loop
        self.passes: dict[int, Pass] = {}
        self.unused = UnusedBatches(session, loop, optimizer)
        self._ahead: weakref.WeakSet[Any] = weakref.WeakSet()
        loop.take_back = self.unused.take_back

    def is_away(self) -> bool:
        """Say whether requests are none of ours now: another thread, an explicit loop, a nested loader."""
        session, loop = self.session, self.loop
        if get_ident() != session.journal.owner or loop.explicit or loop.paused:
            return True
        # No update happens inside a fetch: if there was one, a signal handler's exception lost its end.
        return loop.fetching != NOTHING and not session.capture.updated

    @property
    def is_in_doubt(self) -> bool:
        """Say whether a request with gradients on may be one of a validation."""
        model = self.loop.model
        return model is not None and not model.training

    def other_request(self) -> None:
        """Note a request for other data: where an evaluation begins, a step that was updated is over.

        A model in training mode may fetch without gradients between two updates of one step.
        """
        capture = self.session.capture
        if capture.micro_batches and (self.loop.model is None or self.is_in_doubt):
            end_updated_step(self.session, self.loop)
            self._look_inside_a_step()
        if self.session.unmeasured.get("input_wait") == NO_REQUEST:
            self.session.unmeasured["input_wait"] = NOT_TRAINING

    def _look_inside_a_step(self) -> None:
        """Say that an evaluation begins where the step is open that its batches are not for."""
        session = self.session
        with session.faults.guard("which batches were trained on"):
            self.unused.take_back(asks_in_doubt=True)
        if session.current_capture().micro_batches and self.is_in_doubt:
            session.faults.warn(INSIDE_A_STEP)

    def request_in_doubt(self, fetch: Callable[[Any], Any], iterator: Any) -> Any:
        """Fetch a batch in evaluation mode with gradients on: for training, as it may turn out."""
        session, unused = self.session, self.unused
        known = self.passes.get(id(iterator))
        end_updated_step(session, self.loop)
        with session.faults.guard("which batches were trained on"):
            unused.take_back(known, asks_in_doubt=True)
        capture = session.current_capture()
        is_inside_a_step = capture.micro_batches and capture is not unused.doubtful
        if is_inside_a_step or session.level == "step":
            self.other_request()
            return fetch(iterator)
        if known is None or known.is_exhausted:
            known = self.begin(iterator)
            if known is None:
                return fetch(iterator)
        unused.doubtful = session.capture
        try:
            return known.request(fetch, iterator)
        except StopIteration:
            with session.faults.guard("which batches were trained on"):
                unused.take_back(known, asks_in_doubt=True)
            raise

    def leave_alone(self, iterator: Any) -> None:
        """Look no more at `iterator`, which is read ahead: its requests do not come when the loop asks."""
        self._ahead.add(iterator)
        if not self.loop.has_loader:
            self.session.unmeasured["input_wait"] = READS_AHEAD

    def begin(self, iterator: Any, loader: Any = None) -> Pass | None:
        """Begin a pass of `iterator`; None if it is left alone or if ours fails."""
        if iterator in self._ahead:
            return None
        session, loop = self.session, self.loop
        begun = None
        with session.faults.guard("the batches of a loader"):
            self.unused.drop_interrupted()
            self.unused.take_back(asks_in_doubt=self.is_in_doubt)
            key = id(iterator)
            if key in self.passes:  # persistent workers keep their iterator
                self.passes[key].is_exhausted = True
            setup = describe_iterator(session.setup, iterator)
            sizes = SizeReader(setup.batch_size)
            begun = Pass(session, loop, sizes, known_length(loader), setup=setup)
            begun.follow(iterator, functools.partial(self._forget, key))
            self.passes[key] = begun
        return begun

    def _forget(self, key: int, reference: object) -> None:
        """The iterator is gone, and its `id` may be another's."""
        self.passes.pop(key, None)


def _watched_next(watch: _Watch, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    session, loop, passes = watch.session, watch.loop, watch.passes
    journal, is_grad_enabled = session.journal, torch.is_grad_enabled

    @functools.wraps(fetch)
    def __next__(iterator: Any) -> Any:
        # `is_away` and `is_in_doubt`, written out: this runs at every micro-batch.
        if get_ident() != journal.owner or loop.paused:
            return fetch(iterator)
        if loop.explicit:
            if loop.fetching == WRAPPER:
                return fetch_for_wrapper(fetch, iterator, loop, journal)
            return fetch(iterator)
        if loop.fetching and not session.capture.updated:
            return fetch(iterator)
        if not is_grad_enabled():
            watch.other_request()
            return fetch(iterator)
        model = loop.model
        if not (model is None or model.training):
            return watch.request_in_doubt(fetch, iterator)
        known = passes.get(id(iterator))
        if known is None or known.is_exhausted:  # older than the span, or started over by itself
            known = watch.begin(iterator)
            if known is None:
                return fetch(iterator)
        source = session.capture.source
        if source is not None and source is not known:
            with session.faults.guard("which batches were trained on"):
                watch.unused.take_back(known)
        return known.request(fetch, iterator)

    return __next__


def _watched_iter(watch: _Watch, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    session, loop = watch.session, watch.loop

    @functools.wraps(original)
    def __iter__(loader: Any) -> Any:
        if watch.is_away():
            if loop.fetching == WRAPPER and get_ident() == session.journal.owner:
                return make_iterator(original, loader, session.journal)
            return original(loader)
        if not torch.is_grad_enabled():
            watch.other_request()
            return original(loader)
        if sys._getframe(1).f_globals.get("__name__") == READS_AHEAD_IN:
            iterator = original(loader)
            watch.leave_alone(iterator)
            return iterator
        end_updated_step(session, loop)
        if watch.is_in_doubt:
            return original(loader)  # its pass begins with its first request
        iterator = make_iterator(original, loader, session.journal)
        watch.begin(iterator, loader)
        return iterator

    return __iter__
