"""What the loaders of one loop share, and where a step ends that no `step()` block marks."""

from collections.abc import Callable
from typing import Final

from torch import nn

from traintrace.accounts import BACKWARD
from traintrace.pytorch.reasons import NO_BATCH
from traintrace.session import Session

# What a loop is asking for a batch.
NOTHING: Final = 0
WRAPPER: Final = 1  # anything; torch's loader may be iterated inside
LOADER: Final = 2  # torch's own: a loader that is iterated inside is part of the data


class LoopState:
    """What the loaders of one loop share with the rest of its tracer.

    Attributes:
        epoch: 0-based; one begins with the first batch of an iteration that started after a batch, so
            that loaders iterated side by side share an epoch.
        has_batch: True once the epoch has had a batch.
        has_loader: True once a training loader was seen; its batches then count the micro-batches.
        inside_step: True inside a `step()` block, which ends the step itself.
        paused: Depth of blocks whose batches are no training data.
        explicit: True once the loop named its training loader; then no other loader is looked at.
        fetching: What is being asked for a batch: NOTHING, WRAPPER or LOADER.
        largest_group: Most micro-batches that one step had so far.
        has_seen_backward: True once a step had a backward that was seen; then a step without one has none.
        model: Its training mode tells training requests from others; None if only gradients can.
        take_back: Takes back batches that nothing was trained on, where anything knows that.
    """

    __slots__ = (
        "epoch",
        "explicit",
        "fetching",
        "has_batch",
        "has_loader",
        "has_seen_backward",
        "inside_step",
        "largest_group",
        "model",
        "paused",
        "take_back",
    )

    def __init__(self) -> None:
        self.epoch = self.paused = self.largest_group = 0
        self.has_batch = self.has_loader = self.inside_step = False
        self.explicit = self.has_seen_backward = False
        self.fetching = NOTHING
        self.model: nn.Module | None = None
        self.take_back: Callable[[], None] | None = None


def end_updated_step(session: Session, loop: LoopState) -> None:
    """End the step that has had its update, unless a `step()` block will do that."""
    capture = session.capture
    if capture.updated and not loop.inside_step:
        if not capture.micro_batches:
            session.faults.warn(NO_BATCH)
        if not loop.has_seen_backward:
            loop.has_seen_backward = session.journal.holds(BACKWARD)
        capture.complete()


def end_last_step(session: Session, loop: LoopState) -> None:
    """End what is open where the span ends by itself: a step that was updated is one."""
    capture = session.current_capture()
    loop.inside_step = False  # whatever block is open
    if capture.updated and (capture.micro_batches or session.steps):
        end_updated_step(session, loop)
    elif session.steps and loop.take_back is not None:
        loop.take_back()
