"""`queue.SimpleQueue`, which is written in C: a queue of the same class that hands everything on to the user's."""

import queue
from typing import TYPE_CHECKING, Any

from traintrace.stages.marks import GOT, PLACED, queue_code
from traintrace.stages.operations import operation

if TYPE_CHECKING:
    from traintrace.stages.recorder import StageRecorder

_Base: Any = queue.SimpleQueue


def is_simple(candidate: object) -> bool:
    """Say whether an object is a SimpleQueue written in C, whose class cannot be changed."""
    return type(candidate) is queue.SimpleQueue and type(candidate).__module__ == "_queue"


class FollowedSimpleQueue(_Base):  # type: ignore[misc]
    """Is a SimpleQueue, and holds nothing itself: who kept the user's queue shares its items.

    Attributes:
        followed: The user's queue. followed_as: its name. recorder: what records it.
    """

    __slots__ = ("_get", "_put", "followed", "followed_as", "recorder")

    def __new__(cls, followed: Any, name: str, number: int, recorder: "StageRecorder") -> Any:
        """Make one that hands on to `followed`."""
        return super().__new__(cls)

    def __init__(self, followed: Any, name: str, number: int, recorder: "StageRecorder") -> None:
        self.followed = followed
        self.follow(name, number, recorder)

    def follow(self, name: str, number: int, recorder: "StageRecorder") -> None:
        """Let operations be written under `number` from now on."""
        code = queue_code(number)
        base = queue.SimpleQueue
        self.followed_as = name
        self.recorder = recorder
        self._get = operation(code + GOT)(base.get, recorder)
        self._put = operation(code + PLACED)(base.put, recorder)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item, as the user's queue does."""
        return self._get(self.followed, block, timeout)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item, as the user's queue does."""
        self._put(self.followed, item, block, timeout)

    def get_nowait(self) -> Any:
        """Take an item that is there."""
        return self._get(self.followed, False)

    def put_nowait(self, item: Any) -> None:
        """Put an item."""
        self._put(self.followed, item, False)

    def empty(self) -> bool:
        """Say whether the user's queue is empty."""
        return bool(self.followed.empty())

    def qsize(self) -> int:
        """Give the number of items of the user's queue."""
        return int(self.followed.qsize())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as the user's queue does, which refuses."""
        return self.followed.__reduce_ex__(protocol)
