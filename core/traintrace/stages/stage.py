"""`with tracer.stage("target-forward") as stage:` — the block in which a thread, process or task works in a stage."""

import operator
from collections.abc import Callable
from types import TracebackType
from typing import Any

from traintrace.registry import REGISTRY
from traintrace.stages.blocks import CURRENT, Block, current_block
from traintrace.stages.marks import DONE, SHIFT
from traintrace.stages.recorder import FULL, StageRecorder
from traintrace.stages.worker import NOBODY


class Stage:
    """A stage's `with` block; may be entered again and by several threads.

    A block that is open when a session begins is recorded from then on.

    Args:
        recorder: What records it; None with `find` or for a stage that does nothing.
        name: Of the stage.
        find: Gives what records it whenever the block is entered; None then means that no run is traced.
    """

    __slots__ = ("_find", "_name")

    def __init__(
        self,
        recorder: StageRecorder | None,
        name: str,
        find: Callable[[], StageRecorder | None] | None = None,
    ) -> None:
        self._find = find if recorder is None else lambda: recorder
        self._name = str(name)

    def __enter__(self) -> "Stage":
        if self._find is None:
            return self
        block = Block(self._name)
        CURRENT.set(block)
        # Before looking for a session: one that begins meanwhile finds the block.
        REGISTRY.named.add_block(block)
        recorder = self._find()
        if recorder is not None and recorder.recording:
            with recorder.faults.guard(f"the stage {self._name}"):
                recorder.enter(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        innermost = current_block()
        block = self._found(innermost)
        if innermost is not None and block is not None:
            REGISTRY.named.remove_block(block)
            block.close(innermost)

    def _found(self, innermost: Block | None) -> Block | None:
        """Give the caller's block of this stage, others that it is in inside that one left out."""
        if self._find is None:
            return None
        block = innermost
        while block is not None and block.stage != self._name:
            block = block.outer
        return block

    def done(self, items: int = 1, tokens: int | None = None) -> None:
        """Say that work on `items` items is done, which held `tokens` tokens.

        What the worker did since it said so last was for them. Without it, what follows each `get` is one item.
        """
        block = self._found(current_block())
        worker = None if block is None else block.worker
        if worker is None or worker.owner == NOBODY:
            return
        recorder = worker.recorder
        said = -1 if tokens is None else tokens
        if type(items) is not int or type(said) is not int:
            with recorder.faults.guard("what a stage says that it has done"):
                items, said = _whole(items), _whole(said)
            if type(items) is not int or type(said) is not int:
                return
        worker.entries.extend((recorder.now(), (items << SHIFT) + said + 1, DONE))
        if len(worker.entries) > FULL:
            recorder.relieve(worker)


def _whole(value: Any) -> int:
    if hasattr(value, "is_cuda"):  # reading it might wait for a device
        raise TypeError("the number of items or tokens is a tensor, and must be an int")
    return operator.index(value)
