"""Find the Trainers that are running, from the frames of this thread."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from transformers import Trainer


def trainer_that_calls(callback: object) -> Any | None:
    """Give the innermost Trainer on the stack that lists `callback`, which never receives it.

    Walks the frames (about 20 us), so it is for the one event that begins a training.
    """
    for trainer in _trainers():
        handler = getattr(trainer, "callback_handler", None)
        if any(one is callback for one in getattr(handler, "callbacks", ())):
            return trainer
    return None


def is_on_stack(trainer: object) -> bool:
    """Say whether a method of `trainer` is running on this thread."""
    return any(one is trainer for one in _trainers())


def _trainers() -> Iterator[Any]:
    """Give the Trainers whose methods are running, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Other frames are left alone: to read a frame's variables makes a copy that lives as long.
        if frame.f_code.co_varnames[:1] == ("self",):
            owner = frame.f_locals.get("self")
            if isinstance(owner, Trainer):
                yield owner
        frame = frame.f_back
