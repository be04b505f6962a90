"""Take back batches that nothing was trained on: a look at the data, or a validation nobody marked.

What a batch was requested for shows only afterwards. A step that is open holds batches; if no more of
them can come and no backward came, they were no part of a step.
"""

import sys
from typing import Any

import torch

from traintrace.accounts import BACKWARD
from traintrace.facts import EPOCH_FIRST
from traintrace.pytorch.graphs import graphs_exist
from traintrace.pytorch.loopstate import LoopState
from traintrace.pytorch.optimizer import parameters_of
from traintrace.pytorch.passes import Pass
from traintrace.recording.journal import UNUSED
from traintrace.recording.steps import StepCapture
from traintrace.session import Session


class UnusedBatches:
    """Knows whether the batches of the open step were trained on, and takes them back if not.

    Attributes:
        doubtful: The step whose batches were requested in evaluation mode with gradients on: by a
            validation, or by a model that trains in that mode. None before the first one.
    """

    def __init__(self, session: Session, loop: LoopState, optimizer: Any) -> None:
        self._session = session
        self._loop = loop
        self._optimizer = optimizer
        self._last_error = _last_error()
        self.doubtful: StepCapture | None = None

    def take_back(self, asking: Pass | None = None, *, asks_in_doubt: bool = False) -> None:
        """Take back the batches of the open step if they are known not to be trained on.

        Args:
            asking: The pass that a batch is about to be requested from, if there is one yet.
            asks_in_doubt: This request itself is a doubtful one: it proves nothing about another
                pass, and the last batch of its own is one that was looked at.
        """
        capture = self._session.capture
        source = capture.source
        if capture.updated or not isinstance(source, Pass):
            return
        if asks_in_doubt:
            is_over = source.is_over or source is asking
        else:
            is_over = source.is_over or (capture is self.doubtful and source is not asking)
        if not is_over or self._was_used(capture):
            return
        if not capture.flags & EPOCH_FIRST and capture is not self.doubtful:
            capture.abort()  # batches at the end of an epoch that was trained on
            return
        if capture.flags & EPOCH_FIRST:
            source.take_back()
        self._session.journal.write(UNUSED)
        capture.ended = True  # never a step: nothing to publish and nothing to abort
        self._session.current_capture()

    def drop_interrupted(self) -> None:
        """Drop the step that a cell of a notebook left open when it raised."""
        error, self._last_error = self._last_error, _last_error()
        if self._last_error != error:
            self._session.capture.abort()

    def _was_used(self, capture: StepCapture) -> bool:
        parameters = self._parameters()
        if parameters and all(parameter.grad is None for parameter in parameters):
            return False
        if self._session.journal.holds(BACKWARD):
            return True
        if capture is self.doubtful:
            return False
        # At the level "step", or inside a compiled function, a backward may be there and not be seen.
        return self._session.level == "step" or (
            graphs_exist() and not self._loop.has_seen_backward
        )

    def _parameters(self) -> list[torch.Tensor]:
        if self._loop.model is not None:
            return list(self._loop.model.parameters())
        return [*parameters_of(self._optimizer)]


def _last_error() -> int:
    """Give the identity of the error that an interactive interpreter showed last."""
    return id(getattr(sys, "last_value", None))
