"""A recorder on a clock that only moves when told to, and a queue that moves it: for exact figures of stages."""

from collections.abc import Callable
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.stages.queues import follow_queue
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.records import Update, WorkerUpdate
from traintrace.stages.stage import Stage

START_NS = 1_000_000


class StageClock:
    """What a recorder reads the time from.

    Attributes:
        now_ns: The time.
        recorder: The recorder.
    """

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.recorder = StageRecorder(FaultReporter(raise_faults=True), lambda: self.now_ns)

    def pass_by(self, ns: int) -> None:
        """Let time pass."""
        self.now_ns += ns

    def stage(self, name: str = "work") -> Stage:
        """Give a stage's block."""
        return Stage(self.recorder, name)

    def queue(self, name: str) -> "TimedQueue":
        """Give a followed queue whose operations take as long as they are told to."""
        return follow_queue(TimedQueue(self.pass_by), name, self.recorder)

    def worker(self, number: int = 0) -> WorkerUpdate:
        """Give what is known of a worker by now; forgets what was handed on."""
        return next(worker for worker in self.recorder.take().workers if worker.number == number)

    def update(self) -> Update:
        """Give all that is new."""
        return self.recorder.take()


class TimedQueue:
    """Waits for `wait_ns`, and then has an item or place, or not."""

    maxsize = 4

    def __init__(self, pass_by: Callable[[int], None]) -> None:
        self._pass_by = pass_by

    def get(self, wait_ns: int = 0, succeeds: bool = True) -> Any:
        """Take nothing, after a while."""
        self._pass_by(wait_ns)
        if not succeeds:
            raise LookupError("empty")

    def put(self, wait_ns: int = 0, succeeds: bool = True) -> None:
        """Put nothing, after a while."""
        self._pass_by(wait_ns)
        if not succeeds:
            raise LookupError("full")
