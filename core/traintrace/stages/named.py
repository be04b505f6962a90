"""What users named in this process and still have: each session takes it up when it begins.

Nothing is kept alive, no lock is taken, and while no run is traced nothing else is done with it.
"""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from traintrace.stages.blocks import Block

# Names that are kept of queues which cannot be followed later.
_MOST_NAMES: Final = 100


class Named:
    """Queues and open blocks of stages, in the order in which they came. For any thread.

    Attributes:
        lost: Names of queues that were named without a session and allow no weak reference, so that no later
            session finds them.
    """

    def __init__(self) -> None:
        self._queues: dict[int, tuple[Callable[[], Any], str]] = {}
        self._blocks: dict[int, Callable[[], Block | None]] = {}
        self.lost: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._queues or self._blocks or self.lost)

    def add_queue(self, queue: Any, name: str) -> bool:
        """Note a queue, or that it has another name now; say whether that is possible."""
        queues, key = self._queues, id(queue)
        try:
            reference = weakref.ref(queue, lambda _: queues.pop(key, None))
        except TypeError:
            return False
        queues[key] = (reference, name)
        return True

    def remove_queue(self, queue: Any) -> None:
        """Forget a queue, for which another one is used."""
        self._queues.pop(id(queue), None)

    def lose(self, name: str) -> None:
        """Note that a queue was named that no later session finds."""
        if len(self.lost) < _MOST_NAMES:
            self.lost[name] = None

    def add_block(self, block: "Block") -> None:
        """Note that a block was entered."""
        blocks, key = self._blocks, id(block)
        blocks[key] = weakref.ref(block, lambda _: blocks.pop(key, None))

    def remove_block(self, block: "Block") -> None:
        """Note that a block was left."""
        self._blocks.pop(id(block), None)

    def queues(self) -> list[tuple[Any, str]]:
        """Give the queues that are alive, with their names."""
        known = list(self._queues.values())  # in one go: other threads add theirs
        return [(queue, name) for reference, name in known if (queue := reference()) is not None]

    def blocks(self) -> "list[Block]":
        """Give the blocks that are open, the outer ones first."""
        known = list(self._blocks.values())
        return [block for reference in known if (block := reference()) is not None]

    def forget(self, recorder: object) -> None:
        """Keep nothing of a session that has ended in the blocks that are still open."""
        for block in self.blocks():
            worker = block.worker
            if worker is not None and worker.recorder is recorder:
                block.places = block.worker = None

    def leave_to_parent(self) -> None:
        """In a forked child: the threads that are inside blocks are the parent's."""
        self._blocks.clear()
