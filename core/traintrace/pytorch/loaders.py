"""See the batch requests of torch's own loaders in a loop that nobody changed.

The base class of the loaders' iterators has its `__next__` replaced for the span, so that loaders and
iterators keep their types. A request is a training request if gradients are on and the model is in
training mode; a validation loop is neither, and ends a step that has had its update.

Not seen are iterables that are no DataLoader, and a loader that is read ahead by an iterator around it
(accelerate's): its requests come one batch early, and the last step of an epoch makes none.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, dataloader

from traintrace.accounts import EPOCH_BOUNDARY
from traintrace.facts import EPOCH_FIRST
from traintrace.journal import RETRACT
from traintrace.patching import replace_attribute
from traintrace.pytorch.passes import LoopState, Pass, end_updated_step
from traintrace.pytorch.setup import describe_iterator, known_length
from traintrace.pytorch.sizes import SizeReader
from traintrace.session import Session

# Modules whose loaders fetch the next batch before they hand out the last one.
_READ_AHEAD: Final = frozenset(("accelerate.data_loader",))

NO_REQUEST: Final = (
    "no training batch was requested from a torch DataLoader or through tracer.batches(loader)"
)
_READS_AHEAD: Final = (
    "the loader around torch's fetches one batch ahead; request batches through "
    "tracer.batches(loader)"
)
_NOT_TRAINING: Final = (
    "batches were requested only with gradients off or while the model was in evaluation mode; "
    "request training batches through tracer.batches(loader)"
)


def trace_loaders(
    session: Session, loop: LoopState, model: nn.Module | None, optimizer: Any
) -> Iterator[Callable[[], None]]:
    """Install what charges the training requests of torch's loaders; give what undoes it.

    Args:
        session: Where requests are written and steps end.
        loop: Shared with the rest of the tracer; nothing is seen while it is paused, or once it is
            explicit.
        model: Its training mode tells training requests from others; None if only gradients can.
        optimizer: Whose parameters tell whether batches were used, where no model does.
    """
    session.unmeasured["input_wait"] = NO_REQUEST
    base: Any = getattr(dataloader, "_BaseDataLoaderIter", None)
    if base is None:
        return
    watch = _Watch(session, loop, model, optimizer)
    yield replace_attribute(base, "__next__", _watched_next(watch, base.__next__))
    yield replace_attribute(DataLoader, "__iter__", _watched_iter(watch, DataLoader.__iter__))
    yield watch.passes.clear


class _Watch:
    """What the two replacements share.

    Attributes:
        passes: The pass of each live iterator, by the iterator's `id`.
    """

    def __init__(
        self, session: Session, loop: LoopState, model: nn.Module | None, optimizer: Any
    ) -> None:
        self.session = session
        self.loop = loop
        self.model = model
        self._optimizer = optimizer
        self.passes: dict[int, Pass] = {}
        self._ahead: weakref.WeakSet[Any] = weakref.WeakSet()
        self._last_error = _last_error()

    def is_away(self) -> bool:
        """Say whether requests are none of ours now: another thread, an explicit loop, a nested loader.

        (The hot path has this written out.)
        """
        session, loop = self.session, self.loop
        if get_ident() != session.journal.owner or loop.explicit or loop.paused:
            return True
        # No update happens inside a fetch: if there was one, a signal handler's exception lost its end.
        return loop.fetching and not session.capture.updated

    def is_training(self) -> bool:
        """Say whether a request made now asks for training data."""
        return torch.is_grad_enabled() and (self.model is None or self.model.training)

    def other_request(self) -> None:
        """Note a request for other data: where an evaluation begins, a step that was updated is over.

        A model in training mode may fetch without gradients between two updates of one step.
        """
        if self.session.capture.micro_batches and (self.model is None or not self.model.training):
            end_updated_step(self.session, self.loop)
        if self.session.unmeasured.get("input_wait") == NO_REQUEST:
            self.session.unmeasured["input_wait"] = _NOT_TRAINING

    def reads_ahead(self, iterator: Any) -> None:
        """Leave `iterator` alone: its requests do not come when the loop asks."""
        self._ahead.add(iterator)
        if not self.loop.has_loader:
            self.session.unmeasured["input_wait"] = _READS_AHEAD

    def begin(self, iterator: Any, loader: Any = None) -> Pass | None:
        """Begin a pass of `iterator`; None if it is left alone or if ours fails."""
        if iterator in self._ahead:
            return None
        session, loop = self.session, self.loop
        begun = None
        with session.faults.guard("the batches of a loader"):
            self._drop_unused_batches()
            loop.begin_epoch()
            if not loop.has_loader:
                loop.has_loader = True
                session.unmeasured.pop("input_wait", None)
            key = id(iterator)
            if key in self.passes:  # persistent workers keep their iterator
                self.passes[key].is_exhausted = True
            session.setup = describe_iterator(session.setup, iterator)
            sizes = SizeReader(session.setup.batch_size)
            begun = Pass(session, loop, sizes, known_length(loader))
            begun.follow(iterator, functools.partial(self._forget, key))
            self.passes[key] = begun
        return begun

    def _forget(self, key: int, reference: object) -> None:
        """The iterator is gone, and its `id` may be another's."""
        self.passes.pop(key, None)

    def _drop_unused_batches(self) -> None:
        """Drop what is no step: batches that left no gradient, or what an interrupt left open.

        A batch that was only looked at, or a pass that computes the data's mean, was no step at all. In
        a notebook, a cell that raised leaves its step open.
        """
        capture = self.session.capture
        error, self._last_error = self._last_error, _last_error()
        if self._last_error != error:
            capture.abort()
        elif isinstance(capture.source, Pass) and capture.source.is_over and not capture.updated:
            parameters = self._parameters()
            if not parameters or any(parameter.grad is not None for parameter in parameters):
                return
            if capture.flags & EPOCH_FIRST:
                self.loop.has_batch = False
                self.session.journal.write(RETRACT)
                capture.ended = True  # never a step: nothing to publish and nothing to abort
                self.session.current_capture()
            else:
                capture.abort()

    def _parameters(self) -> list[torch.Tensor]:
        if self.model is not None:
            return list(self.model.parameters())
        groups = getattr(self._optimizer, "param_groups", ())
        return [parameter for group in groups for parameter in group["params"]]


def _last_error() -> int:
    """Give the identity of the error that an interactive interpreter showed last."""
    return id(getattr(sys, "last_value", None))


def _watched_next(watch: _Watch, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    session, loop, model, passes = watch.session, watch.loop, watch.model, watch.passes
    journal, is_grad_enabled = session.journal, torch.is_grad_enabled

    @functools.wraps(fetch)
    def __next__(iterator: Any) -> Any:
        # `is_away` and `is_training`, written out: this runs at every micro-batch.
        if get_ident() != journal.owner or loop.explicit or loop.paused:
            return fetch(iterator)
        if loop.fetching and not session.capture.updated:
            return fetch(iterator)
        if not is_grad_enabled() or not (model is None or model.training):
            watch.other_request()
            return fetch(iterator)
        known = passes.get(id(iterator))
        if known is None or known.is_exhausted:  # older than the span, or started over by itself
            known = watch.begin(iterator)
            if known is None:
                return fetch(iterator)
        return known.request(fetch, iterator)

    return __next__


def _watched_iter(watch: _Watch, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    session, loop = watch.session, watch.loop

    @functools.wraps(original)
    def __iter__(loader: Any) -> Any:
        if watch.is_away():
            return original(loader)
        if not watch.is_training():
            watch.other_request()
            return original(loader)
        if sys._getframe(1).f_globals.get("__name__") in _READ_AHEAD:
            iterator = original(loader)
            watch.reads_ahead(iterator)
            return iterator
        end_updated_step(session, loop)
        try:
            session.journal.write(EPOCH_BOUNDARY)
            iterator = original(loader)
        finally:
            session.journal.write(~EPOCH_BOUNDARY)
        watch.begin(iterator, loader)
        return iterator

    return __iter__
