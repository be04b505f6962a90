"""The session of a hand-written loop, which knows the tracer that the loop has in its hands."""

from contextlib import AbstractContextManager
from typing import Protocol

from torch import nn

from traintrace.session import Session


class LoopTracer(Protocol):
    """What may be asked of a tracer by whoever finds its session.

    Attributes:
        is_manual: True if the span was begun by `start()`, which no `with` block is sure to end.
    """

    is_manual: bool

    @property
    def is_active(self) -> bool:
        """Say whether a span was begun and not closed."""

    @property
    def is_closed(self) -> bool:
        """Say whether a span was begun and has been closed."""

    def step(self) -> AbstractContextManager[None]:
        """Mark one step."""

    def follow(self, model: nn.Module) -> None:
        """Charge the calls of `model` to `forward` as well."""

    def interrupt(self) -> None:
        """End a span that nobody will end any more."""


class LoopSession(Session):
    """The session of a hand-written loop.

    Attributes:
        tracer: What the loop has in its hands; None until the span was handed to it.
    """

    tracer: LoopTracer | None = None
