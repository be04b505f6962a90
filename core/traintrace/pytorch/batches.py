"""Charge the fetching of training batches to `input_wait`, around the user's own iterable.

An object goes around the iterable, not a generator: it can be iterated again each epoch, and the
user's loader and its iterator stay what they are.
"""

from collections.abc import Iterable, Iterator
from threading import get_ident
from typing import Any, Generic, TypeVar, cast

from traintrace.accounts import EPOCH_BOUNDARY, INPUT_WAIT
from traintrace.facts import EPOCH_FIRST
from traintrace.journal import EXHAUSTED
from traintrace.pytorch.sizes import batch_sizes
from traintrace.session import Session

Batch = TypeVar("Batch")


class Epochs:
    """Counts epochs over all loaders of a loop: one begins where iteration starts after a batch.

    Attributes:
        epoch: 0-based.
        has_batch: True once the epoch has had a batch; loaders iterated side by side share an epoch.
    """

    __slots__ = ("epoch", "has_batch")

    def __init__(self) -> None:
        self.epoch = 0
        self.has_batch = False

    def begin(self) -> None:
        """Note that the iteration of a loader starts."""
        self.epoch += self.has_batch
        self.has_batch = False


class Boundary:
    """Where the steps of a loop end.

    Attributes:
        automatic: A step ends where the first batch after an update is requested. False once the
            user marks steps.
    """

    __slots__ = ("automatic",)

    def __init__(self) -> None:
        self.automatic = True


class TracedBatches(Generic[Batch]):
    """The user's iterable, with its waits charged; other attributes are the iterable's own."""

    def __init__(
        self,
        batches: Iterable[Batch],
        session: Session,
        epochs: Epochs,
        boundary: Boundary,
    ) -> None:
        self._batches = batches
        self._session = session
        self._epochs = epochs
        self._boundary = boundary

    def __iter__(self) -> Iterator[Batch]:
        session = self._session
        if not session.recording or get_ident() != session.journal.owner:
            return iter(self._batches)
        self._epochs.begin()
        session.journal.write(EPOCH_BOUNDARY)
        try:
            iterator = iter(self._batches)
        finally:
            session.journal.write(~EPOCH_BOUNDARY)
        return _TracedIterator(iterator, session, self._epochs, self._boundary)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


class SizedTracedBatches(TracedBatches[Batch]):
    """The same for an iterable with a length."""

    def __len__(self) -> int:
        return len(cast("Any", self._batches))


def trace_batches(
    batches: Iterable[Batch],
    session: Session,
    epochs: Epochs,
    boundary: Boundary,
) -> TracedBatches[Batch]:
    """Wrap `batches`; all loaders of one loop share `epochs` and `boundary`."""
    kind = SizedTracedBatches if hasattr(batches, "__len__") else TracedBatches
    return kind(batches, session, epochs, boundary)


class _TracedIterator(Iterator[Batch]):
    __slots__ = (
        "_boundary",
        "_enter",
        "_epochs",
        "_exhausted",
        "_first",
        "_iterator",
        "_journal",
        "_leave",
        "_session",
    )

    def __init__(
        self,
        iterator: Iterator[Batch],
        session: Session,
        epochs: Epochs,
        boundary: Boundary,
    ) -> None:
        journal = session.journal
        self._iterator = iterator
        self._session = session
        self._journal = journal
        self._boundary = boundary
        self._epochs = epochs
        self._first = True
        self._enter = journal.bounded_marker(INPUT_WAIT)
        self._leave = journal.marker(~INPUT_WAIT)
        self._exhausted = journal.marker(EXHAUSTED)

    def __next__(self) -> Batch:
        if get_ident() != self._journal.owner:
            return next(self._iterator)
        session = self._session
        if not session.capture.micro_batches:
            if session.open_memory is not None:
                session.open_memory()
        elif session.capture.updated and self._boundary.automatic:
            session.capture.complete()
        self._enter()
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._exhausted()
            raise
        finally:
            self._leave()
        capture = session.capture
        capture.micro_batches += 1
        capture.epoch = self._epochs.epoch
        if self._first:
            self._first = False
            self._epochs.has_batch = True
            capture.flags |= EPOCH_FIRST
        try:
            samples, tokens, padded_tokens = batch_sizes(batch)
            if tokens is None and padded_tokens is None:
                if samples is not None:
                    capture.samples = samples + (capture.samples or 0)
            else:
                capture.count(samples, tokens, padded_tokens)
        except Exception as error:  # noqa: BLE001 - an odd batch type costs its own size, no more
            session.faults.fault(error, "the size of a batch")
        return batch
