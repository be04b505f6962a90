"""Charge the fetching of training batches to `input_wait`, around the user's own iterable.

An object goes around the iterable, not a generator: it can be iterated again each epoch, and the
user's loader and its iterator stay what they are.
"""

from collections.abc import Iterable, Iterator
from threading import get_ident
from typing import Any, Generic, TypeVar, cast

from traintrace.accounts import EPOCH_BOUNDARY
from traintrace.facts import LOOKAHEAD
from traintrace.pytorch.loopstate import LoopState, end_updated_step
from traintrace.pytorch.passes import Pass
from traintrace.pytorch.setup import known_length
from traintrace.pytorch.sizes import SizeReader
from traintrace.pytorch.wrapping import kind_of, reads_ahead
from traintrace.session import Session

Batch = TypeVar("Batch")


class TracedBatches(Generic[Batch]):
    """The user's iterable, with its waits charged; other attributes are the iterable's own."""

    def __init__(self, batches: Iterable[Batch], session: Session, loop: LoopState) -> None:
        self._batches = batches
        self._session = session
        self._loop = loop
        self._sizes = SizeReader(getattr(batches, "batch_size", None))
        self._flags = LOOKAHEAD if reads_ahead(batches) else 0

    def __iter__(self) -> Iterator[Batch]:
        session, loop = self._session, self._loop
        if get_ident() != session.journal.owner or loop.paused:
            return iter(self._batches)
        end_updated_step(session, loop)
        session.journal.write(EPOCH_BOUNDARY)
        try:
            iterator = iter(self._batches)
        finally:
            session.journal.write(~EPOCH_BOUNDARY)
        length = None
        with session.faults.guard("the flag of partial groups"):
            length = known_length(self._batches)
        begun = Pass(session, loop, self._sizes, length, kind=kind_of(iterator), flags=self._flags)
        return TracedIterator(iterator, session, loop, begun)

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
    loop.has_loader = loop.explicit = True
    if hasattr(batches, "__next__"):
        iterator = cast("Iterator[Batch]", batches)
        flags = LOOKAHEAD if reads_ahead(iterator) else 0
        begun = Pass(session, loop, SizeReader(), kind=kind_of(iterator), flags=flags)
        return TracedIterator(iterator, session, loop, begun)
    kind = SizedTracedBatches if hasattr(batches, "__len__") else TracedBatches
    return kind(batches, session, loop)


class TracedIterator(Iterator[Batch]):
    """The user's iterator, with its waits charged."""

    __slots__ = ("__weakref__", "_iterator", "_journal", "_loop", "_pass")

    def __init__(
        self, iterator: Iterator[Batch], session: Session, loop: LoopState, its_pass: Pass
    ) -> None:
        self._iterator = iterator
        self._journal = session.journal
        self._loop = loop
        self._pass = its_pass
        its_pass.follow(self)

    def __next__(self) -> Batch:
        if get_ident() != self._journal.owner or self._loop.paused:
            return next(self._iterator)
        return self._pass.request(next, self._iterator)
