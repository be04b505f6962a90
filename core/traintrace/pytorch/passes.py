"""One pass over the batches of a loader: its requests are `input_wait`, its batches are counted.

Shared by the wrapper that a loop asks for (`traintrace.pytorch.batches`) and by what sees torch's own
loaders in an untouched loop (`traintrace.pytorch.loaders`).
"""

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import torch

from traintrace.accounts import INPUT_WAIT
from traintrace.facts import EPOCH_FIRST, PARTIAL_GROUP, Setup
from traintrace.pytorch.loopstate import LOADER, NOTHING, LoopState, end_updated_step
from traintrace.pytorch.setup import weigh_first_batch
from traintrace.pytorch.sizes import SizeReader
from traintrace.recording.journal import EXHAUSTED
from traintrace.session import Session

# One request in 256 is written by a marker, which keeps the journal bounded; a mask of the count.
_BOUNDED_EACH: Final = 255

Batch = TypeVar("Batch")
Source = TypeVar("Source")


class Pass:
    """One pass; several may feed one step, and the first to do so counts its micro-batches.

    A step is flagged `partial_group` where the length of the pass is known, the pass ended inside the
    step's group, and an earlier group was larger. Otherwise nothing is claimed: the usual size of a
    group is in the loop's own code, and a group that the next epoch carries on is no partial one.

    It holds no reference to the iterator, which ends when the loop lets go of it.

    Attributes:
        is_exhausted: True once a request ended in StopIteration.
    """

    __slots__ = (
        "_before",
        "_enter",
        "_exhausted",
        "_first",
        "_flags",
        "_follows_epoch",
        "_iterator",
        "_kind",
        "_leave",
        "_left",
        "_loop",
        "_now",
        "_plain",
        "_session",
        "_setup",
        "_sizes",
        "_stacked",
        "is_exhausted",
    )

    def __init__(
        self,
        session: Session,
        loop: LoopState,
        sizes: SizeReader,
        length: int | None = None,
        *,
        kind: int = LOADER,
        flags: int = 0,
        setup: Setup | None = None,
    ) -> None:
        """Begin a pass.

        Args:
            session: Where it is written.
            loop: What it shares with the other passes of the loop.
            sizes: Reads the sizes of its batches.
            length: Number of its batches, None if it is not known.
            kind: What is asked: torch's own loader, or something that may wrap one.
            flags: Of every step that it feeds.
            setup: Describes the loader; the run's own once the pass has fed a step.
        """
        journal = session.journal
        self._session = session
        self._loop = loop
        self._sizes = sizes
        self._kind = kind
        self._flags = flags
        self._setup = setup
        self._follows_epoch = loop.epoch if loop.has_batch else None
        self._before: tuple[int, bool, int, bool, str | None, Setup] | None = None
        self._stacked: type | None = None  # the type of batches that hold one tensor per field
        self._first = True
        self._left = length or 0  # counts down; one that starts at 0 never comes back to it
        self._iterator: weakref.ref[Any] | None = None
        self.is_exhausted = False
        self._now, self._plain = journal.now, journal.plain
        self._enter = journal.marker(INPUT_WAIT)
        self._leave = journal.marker(~INPUT_WAIT)
        self._exhausted = journal.marker(EXHAUSTED)
        before = session.capture.source
        if isinstance(before, Pass) and before.is_over:
            session.capture.source = None  # the group goes on in this pass

    def follow(self, iterator: Any, when_gone: Callable[[Any], None] | None = None) -> None:
        """Take the end of `iterator` as the end of the pass."""
        self._iterator = weakref.ref(iterator, when_gone)

    @property
    def is_over(self) -> bool:
        """Say whether no more batches can come: it was exhausted, or the loop let go of it."""
        return self.is_exhausted or (self._iterator is not None and self._iterator() is None)

    def request(self, fetch: Callable[[Source], Batch], source: Source) -> Batch:
        """Fetch a batch from `source`; on the training thread only."""
        loop, session = self._loop, self._session
        capture = session.capture
        if capture.updated and not loop.inside_step:
            if capture.micro_batches and loop.has_seen_backward:
                capture.complete()  # the usual case, without another call
            else:
                end_updated_step(session, loop)
            capture = session.capture
        if not capture.micro_batches and session.open_memory is not None:
            session.open_memory()
        plain, now = self._plain, self._now
        try:
            loop.fetching = self._kind
            if plain is None or not self._left & _BOUNDED_EACH:
                self._enter()
            else:  # without the marker's frame
                plain((now(), INPUT_WAIT))
            batch = fetch(source)
        except StopIteration:
            self._exhausted()
            self.is_exhausted = True
            raise
        finally:
            if plain is None:
                self._leave()
            else:
                plain((now(), ~INPUT_WAIT))
            loop.fetching = NOTHING
        # Counting is written out here: this runs at every micro-batch, and a call is what it costs.
        self._left -= 1
        capture = session.capture
        if capture.ended:
            capture = session.current_capture()
        if capture.source is None:
            capture.source = self
        elif capture.source is not self:
            return batch  # a second loader beside the first: it goes into the same micro-batch
        group = capture.micro_batches = capture.micro_batches + 1
        if self._first:
            self._begin_epoch(batch)
            capture.flags = capture.flags & ~PARTIAL_GROUP | EPOCH_FIRST
        capture.epoch = loop.epoch
        if self._flags:
            capture.flags |= self._flags
        if group > loop.largest_group:
            loop.largest_group = group
        elif not self._left and group < loop.largest_group:
            capture.flags |= PARTIAL_GROUP
        kind: type = type(batch)
        field: Any = batch[0] if kind is self._stacked and batch else batch  # type: ignore[index]
        shape = field.shape if type(field) is torch.Tensor else None
        if shape:  # the usual case
            capture.samples = shape[0] + (capture.samples or 0)
        else:
            self._read_size(batch)
        return batch

    def _begin_epoch(self, batch: Any) -> None:
        session, loop = self._session, self._loop
        self._first = False
        reason = session.unmeasured.pop("input_wait", None)
        self._before = (
            loop.epoch,
            loop.has_batch,
            loop.largest_group,
            loop.has_loader,
            reason,
            session.setup,
        )
        loop.epoch += self._follows_epoch == loop.epoch
        loop.has_batch = loop.has_loader = True
        if self._setup is not None:
            session.setup = _with_loader_of(session.setup, self._setup)
        weigh_first_batch(session, batch)

    def take_back(self) -> None:
        """Let the batches so far, the first one among them, have begun no epoch."""
        if self._before is None:
            return
        session, loop = self._session, self._loop
        loop.epoch, loop.has_batch, loop.largest_group, loop.has_loader, reason, setup = (
            self._before
        )
        if reason is not None:
            session.unmeasured["input_wait"] = reason
        restored = _with_loader_of(session.setup, setup)
        session.setup = replace(restored, batch_bytes=setup.batch_bytes)
        self._before = None

    def _read_size(self, batch: Any) -> None:
        """Add the sizes of a batch that is no plain tensor, and learn how such batches are laid out."""
        session, kind = self._session, type(batch)
        try:
            session.capture.count(*self._sizes.read(batch))
        except Exception as error:  # noqa: BLE001 - an odd batch type costs its own size, no more
            session.faults.fault(error, "the size of a batch")
        if self._sizes.is_stacked and kind in (list, tuple):
            self._stacked = kind


def _with_loader_of(setup: Setup, other: Setup) -> Setup:
    return replace(setup, loader=other.loader, batch_size=other.batch_size)
