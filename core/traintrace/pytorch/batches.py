"""Charge the fetching of training batches to `input_wait`, around the user's own iterable.

An object goes around the iterable, not a generator: it can be iterated again each epoch, and the
user's loader and its iterator stay what they are.
"""

from collections.abc import Iterable, Iterator
from threading import get_ident
from typing import Any, Generic, TypeVar, cast

import torch

from traintrace.accounts import EPOCH_BOUNDARY, INPUT_WAIT
from traintrace.facts import EPOCH_FIRST
from traintrace.journal import EXHAUSTED
from traintrace.pytorch.sizes import SizeReader
from traintrace.session import Session

Batch = TypeVar("Batch")


class LoopState:
    """What the loaders of one loop share with the rest of its tracer.

    Attributes:
        epoch: 0-based; one begins where iteration starts after a batch, so that loaders iterated side
            by side share an epoch.
        has_batch: True once the epoch has had a batch.
        has_loader: True once a loader was wrapped; its batches then count the micro-batches.
        inside_step: True inside a `step()` block, which ends the step itself.
        paused: Depth of blocks whose batches are no training data.
    """

    __slots__ = ("epoch", "has_batch", "has_loader", "inside_step", "paused")

    def __init__(self) -> None:
        self.epoch = self.paused = 0
        self.has_batch = self.has_loader = self.inside_step = False

    def begin_epoch(self) -> None:
        """Note that the iteration of a loader starts."""
        self.epoch += self.has_batch
        self.has_batch = False


class TracedBatches(Generic[Batch]):
    """The user's iterable, with its waits charged; other attributes are the iterable's own."""

    def __init__(self, batches: Iterable[Batch], session: Session, loop: LoopState) -> None:
        self._batches = batches
        self._session = session
        self._loop = loop
        self._sizes = SizeReader(getattr(batches, "batch_size", None))

    def __iter__(self) -> Iterator[Batch]:
        session = self._session
        if get_ident() != session.journal.owner or self._loop.paused:
            return iter(self._batches)
        self._loop.begin_epoch()
        session.journal.write(EPOCH_BOUNDARY)
        try:
            iterator = iter(self._batches)
        finally:
            session.journal.write(~EPOCH_BOUNDARY)
        return TracedIterator(iterator, session, self._loop, self._sizes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_batches":
            raise AttributeError(name)  # a copy asks before it has any attribute
        return getattr(self._batches, name)


class SizedTracedBatches(TracedBatches[Batch]):
    """The same for an iterable with a length."""

    def __len__(self) -> int:
        return len(cast("Any", self._batches))


def trace_batches(batches: Iterable[Batch], session: Session, loop: LoopState) -> Iterable[Batch]:
    """Wrap `batches`, an iterable or an iterator; all loaders of one loop share `loop`."""
    loop.has_loader = True
    if hasattr(batches, "__next__"):
        loop.begin_epoch()
        iterator = cast("Iterator[Batch]", batches)
        return TracedIterator(iterator, session, loop, SizeReader())
    kind = SizedTracedBatches if hasattr(batches, "__len__") else TracedBatches
    return kind(batches, session, loop)


class TracedIterator(Iterator[Batch]):
    """One pass over the batches. Several may feed one step: the first to do so counts its micro-batches."""

    __slots__ = (
        "_enter",
        "_exhausted",
        "_first",
        "_iterator",
        "_journal",
        "_leave",
        "_loop",
        "_now",
        "_plain",
        "_session",
        "_sizes",
        "_stacked",
    )

    def __init__(
        self, iterator: Iterator[Batch], session: Session, loop: LoopState, sizes: SizeReader
    ) -> None:
        journal = session.journal
        self._iterator = iterator
        self._session = session
        self._journal = journal
        self._loop = loop
        self._sizes = sizes
        self._stacked: type | None = None  # the type of batches that hold one tensor per field
        self._first = True
        self._now, self._plain = journal.now, journal.plain
        self._enter = journal.marker(INPUT_WAIT)
        self._leave = journal.marker(~INPUT_WAIT)
        self._exhausted = journal.marker(EXHAUSTED)

    def __next__(self) -> Batch:
        loop, session = self._loop, self._session
        if get_ident() != self._journal.owner or loop.paused:
            return next(self._iterator)
        capture = session.capture
        if capture.updated and not loop.inside_step:
            capture.complete()
            capture = session.capture
        if not capture.micro_batches and session.open_memory is not None:
            session.open_memory()
        plain, now = self._plain, self._now
        try:
            self._enter()
            batch = next(self._iterator)
        except StopIteration:
            self._exhausted()
            raise
        finally:
            if plain is None:
                self._leave()
            else:
                plain((now(), ~INPUT_WAIT))
        self._count(batch)
        return batch

    def _count(self, batch: Batch) -> None:
        capture, loop = self._session.capture, self._loop
        if capture.ended:
            capture = self._session.current_capture()
        if capture.source is None:
            capture.source = self
        elif capture.source is not self:
            return  # a second loader beside the first: its batch goes into the same micro-batch
        capture.micro_batches += 1
        capture.epoch = loop.epoch
        if self._first:
            self._first = False
            loop.has_batch = True
            capture.flags |= EPOCH_FIRST
        try:
            kind: type = type(batch)
            field: Any = batch
            if kind is self._stacked and batch:
                field = field[0]
            shape = field.shape if type(field) is torch.Tensor else None
            if shape:  # the usual case, without another call
                capture.samples = shape[0] + (capture.samples or 0)
            else:
                capture.count(*self._sizes.read(batch))
                if self._sizes.is_stacked and kind in (list, tuple):
                    self._stacked = kind
        except Exception as error:  # noqa: BLE001 - an odd batch type costs its own size, no more
            self._session.faults.fault(error, "the size of a batch")
