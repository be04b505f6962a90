"""What a loop says about itself: steps, phases, evaluations, regions, values."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

from traintrace import accounts, log, region
from traintrace.options import check_steps
from traintrace.pytorch.loopstate import LoopState
from traintrace.recording.journal import SWITCH
from traintrace.stages.queues import name_queue
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage
from traintrace_plain_torch.blocks import Charged
from traintrace_plain_torch.loopsession import LoopSession

MARKS: Final[Mapping[str, int]] = {
    phase: SWITCH + accounts.number_of(phase)
    for phase in (*accounts.PHASES, "clip", "communication", "other")
}
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()

AnyQueue = TypeVar("AnyQueue")


class Marks:
    """The part of a tracer that a loop calls; without a session everything passes through."""

    def __init__(self) -> None:
        self._session: LoopSession | None = None
        self._loop = LoopState()

    def step(self) -> AbstractContextManager[None]:
        """Mark one step (or one micro-batch of it); it ends at the block's exit if there was an update."""
        return _NOTHING

    def mark(self, phase: str) -> None:
        """Charge the time from now on to `phase`, until the next mark or the step's end.

        The cheapest form of explicit marks: one call per boundary.

        Raises:
            KeyError: No phase has that name.
        """
        if phase not in MARKS:
            raise KeyError(phase)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Charge the time inside the `with` block to the phase called `name`.

        Raises:
            KeyError: No account has that name.
        """
        session = self._session
        if session is None or not session.recording:
            return _NOTHING
        return Charged(session, accounts.number_of(name), self._loop)

    def evaluating(self) -> AbstractContextManager[None]:
        """Mark an evaluation: nothing inside the block is training time."""
        return self._outside_training(accounts.EVALUATION)

    def checkpointing(self) -> AbstractContextManager[None]:
        """Mark the writing of a checkpoint."""
        return self._outside_training(accounts.CHECKPOINT)

    def _outside_training(self, account: int) -> AbstractContextManager[None]:
        session = self._session
        if session is None or not session.recording:
            return _NOTHING
        return Charged(session, account, self._loop, pauses=True)

    def region(self, name: str) -> AbstractContextManager[None]:
        """Charge the time inside the `with` block to a region called `name`."""
        return region(name)

    def profile(self, steps: tuple[int, int]) -> None:
        """Trace the steps from the first to the last of `steps` with torch.profiler, into the run's folder.

        Steps count from 1. The report shows what the trace says: device time, exposed communication, kernels. The
        steps take longer for it, so statistics leave them out; a profiler of your own goes first.

        Raises:
            UsageError: `steps` is no range of steps.
        """
        check_steps("steps", steps)
        session = self._session
        if session is not None and session.recording:
            session.profile(steps)

    def log(self, **values: object) -> None:
        """Log numbers at the step that is open, e.g. `log(loss=loss)`."""
        log(**values)

    def stage(self, name: str) -> Stage:
        """Work in a stage of a pipeline inside the `with` block, on any thread; see `traintrace.stage`."""
        return Stage(self._recorder, name)

    def queue(self, queue: AnyQueue, name: str) -> AnyQueue:
        """Count what goes through a queue between stages; see `traintrace.queue`."""
        recorder = self._recorder
        return queue if recorder is None else name_queue(queue, name, lambda: recorder)

    @property
    def _recorder(self) -> StageRecorder | None:
        return None if self._session is None else self._session.stages.recorder

    def count(self, samples: int | None = None, tokens: int | None = None) -> None:
        """Add to the sizes of the step that is open, where batches do not tell them."""
        session = self._session
        if session is not None and session.recording:
            session.capture.count(samples, tokens)
