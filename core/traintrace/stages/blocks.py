"""An open `with stage:` block, and how code finds the one it runs in."""

from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

from traintrace.stages.worker import Worker, running_task

if TYPE_CHECKING:
    import asyncio


class GivesPlaces(Protocol):
    """What a block knows of where it has a place."""

    def leave(self, block: "Block", *, resumes: bool) -> None:
        """Free the place of a block; `resumes`: then its thread or task is back in the block around it."""


class Block:
    """What a thread or task is inside of, whether a run is traced or not.

    Attributes:
        stage: Name of the stage.
        outer: The block that it lies in.
        thread, task: Who entered it; `task` is None for a thread, and once the block was left.
        places: Where it has a place; None while no session records it.
        worker: The worker that it is in the session that records it; None if none does.
    """

    __slots__ = ("__weakref__", "_is_open", "outer", "places", "stage", "task", "thread", "worker")

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.outer = current_block()
        self.thread = get_ident()
        self.task: asyncio.Task[object] | None = running_task()
        self.places: GivesPlaces | None = None
        self.worker: Worker | None = None
        self._is_open = True

    def is_callers(self) -> bool:
        """Say whether the calling thread, or the task that runs in it, entered it."""
        return self.thread == get_ident() and (self.task is None or running_task() is self.task)

    def was_left(self) -> bool:
        """Say whether it is open no more."""
        return not self._is_open

    def close(self, innermost: "Block") -> None:
        """Leave it; `innermost` is the block that the caller is in.

        That is another one if a generator that works in a stage of its own was left open inside this one.
        """
        # First: a session that begins now gives no more place to it.
        self._is_open = False
        if innermost is self:
            CURRENT.set(self.outer)
        else:
            inner = innermost
            while inner.outer is not self and inner.outer is not None:
                inner = inner.outer
            inner.outer = self.outer
            # Read once: a session that ends meanwhile takes them away.
            inners, own = inner.worker, self.worker
            if inners is not None and own is not None and inners.outer is own:
                inners.outer = own.outer
        places = self.places
        if places is not None:
            places.leave(self, resumes=innermost is self)
        self.task = None


# Tasks and threads made by `asyncio.to_thread` inherit it: so a block knows who entered it.
CURRENT: Final[ContextVar[Block | None]] = ContextVar("traintrace_block", default=None)


def current_block() -> Block | None:
    """Give the innermost block that the calling thread or task is in; None outside stages."""
    block = CURRENT.get()
    # A task that was made inside a block inherits it, and may outlive it.
    while block is not None and block.was_left():
        block = block.outer
    return block if block is not None and block.is_callers() else None
