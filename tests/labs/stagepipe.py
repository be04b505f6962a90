"""A pipeline of two threads that is started before anything is traced, and a class of queues as users write them."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import traintrace

PAUSE_S: Final = 0.05
PAUSE_NS: Final = 45_000_000  # a sleep may be counted a little short by another clock


class Pipe:
    """A source and a sink in threads of their own with a queue before, between and after them.

    Attributes:
        middle: Holds two items.
        go: What the source puts; None ends all.
    """

    def __init__(self) -> None:
        self.go: Any = queue.Queue()
        self.middle: Any = traintrace.queue(queue.Queue(2), "middle")
        self.out: Any = traintrace.queue(queue.Queue(), "out")
        self.threads = [threading.Thread(target=run) for run in (self.produce, self.consume)]

    def produce(self) -> None:
        with traintrace.stage("produce"):
            for item in iter(self.go.get, None):
                self.middle.put(item)
            self.middle.put(None)

    def consume(self) -> None:
        with traintrace.stage("consume") as stage:
            for item in iter(self.middle.get, None):
                self.out.put(item)
                stage.done()

    def start(self) -> "Pipe":
        for thread in self.threads:
            thread.start()
        return self

    def pass_through(self, items: int) -> None:
        """Let items go through, one after another, and the sink wait for the next one."""
        for item in range(items):
            self.go.put(item)
            assert self.out.get(timeout=5) == item
        until(lambda: self.waits(self.middle.not_empty))

    def waits(self, condition: Any) -> bool:
        return bool(condition._waiters)

    def end(self) -> None:
        self.go.put(None)
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


def until(happens: Callable[[], bool]) -> None:
    """Wait until a thread has come to a point."""
    end = time.monotonic() + 5
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.001)


class Patient(queue.Queue[int]):
    """A queue of a user's own, whose `get` asks itself until there is something."""

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        while block:
            try:
                return self.get(False)
            except queue.Empty:
                time.sleep(0.001)
        return super().get(block, timeout)
