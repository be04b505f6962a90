"""`trace`: the context manager around a hand-written training loop, and what it offers inside.

with trace(model, optimizer) as tracer:
    for batch in tracer.batches(loader):
        with tracer.step():
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""

import itertools
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from traintrace import accounts, log, region
from traintrace.faults import FaultReporter
from traintrace.journal import SWITCH
from traintrace.options import LevelOption, TraceOptions
from traintrace.pytorch.batches import LoopState, trace_batches
from traintrace.pytorch.setup import describe_loader
from traintrace.registry import REGISTRY
from traintrace.session import Session, status_of
from traintrace_plain_torch.blocks import Charged, StepBlock
from traintrace_plain_torch.seams import open_session

if TYPE_CHECKING:
    from traintrace_reporting import Summary

Batch = TypeVar("Batch")
_MARKS: Mapping[str, int] = {
    phase: SWITCH + accounts.number_of(phase)
    for phase in (*accounts.PHASES, "clip", "communication", "other")
}
_NOTHING: AbstractContextManager[None] = nullcontext()


def trace(
    model: nn.Module | None = None,
    optimizer: Any = None,
    *,
    run_dir: str | Path = "runs",
    name: str | None = None,
    level: LevelOption = "auto",
    enabled: bool = True,
    max_steps: int | None = None,
    warmup_steps: int | None = None,
    step_memory: bool = True,
    print_report: bool = True,
) -> "Tracer":
    """Trace the training loop inside the `with` block.

    Args:
        model: The model whose calls are `forward`, as it is called (compiled or wrapped is fine).
        optimizer: The optimizer; with it, a `step()` block without an update is a micro-batch of the
            update to come. Without it, each `step()` block is a step.
        run_dir: Folder that holds runs.
        name: Name of this run; None makes one.
        level: See `traintrace.TraceOptions`.
        enabled: False traces nothing, at no cost.
        max_steps: Stop recording after this many steps; training goes on.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Read memory at each step.
        print_report: Print the report to stderr at the end.

    Raises:
        UsageError: An option has an impossible value.
    """
    options = TraceOptions(
        run_dir=run_dir,
        name=name,
        level=level,
        enabled=enabled,
        max_steps=max_steps,
        warmup_steps=warmup_steps,
        step_memory=step_memory,
        print_report=print_report,
    )
    return Tracer(model, optimizer, options)


class Tracer:
    """Traces one span of a hand-written loop. Where tracing is off, everything passes through."""

    def __init__(self, model: nn.Module | None, optimizer: Any, options: TraceOptions) -> None:
        self._model = model
        self._optimizer = optimizer
        self._options = options
        self._session: Session | None = None
        self._step: StepBlock | None = None
        self._loop = LoopState()

    # -- the span --------------------------------------------------------------------------------

    def start(self) -> "Tracer":
        """Begin the span; what `with trace(...)` does on entry. After `close` it begins a new run."""
        if not self._options.enabled or self._is_active:
            return self
        faults = FaultReporter(REGISTRY.raise_faults)
        if REGISTRY.current() is not None:
            faults.warn("a trace is active on this thread already; the inner one records nothing")
            return self
        with faults.guard("the whole trace"):
            session = open_session(self._model, self._optimizer, self._options)
            session.close_at_exit = self.close
            self._loop = LoopState()
            block = StepBlock(session, self._loop, self._model, self._optimizer)
            self._step = block
            # Bound to this session, and one call instead of two: marks are what a user pays most for.
            self.mark = session.journal.named_marker(_MARKS)  # type: ignore[assignment, method-assign]
            # The same for `step`: the block is one object, handed out again without a call of ours.
            self.step = itertools.repeat(block).__next__  # type: ignore[method-assign]
            self._session = session
        return self

    @property
    def _is_active(self) -> bool:
        return self._session is not None and not self._session.finished

    def close(self, error: BaseException | None = None) -> None:
        """End the span at this instant and make the report; a second call does nothing."""
        session = self._session
        if session is None or session.finished:
            return
        with session.faults.guard("the end of the run"):
            capture = session.current_capture()
            if error is None and capture.updated and capture.micro_batches:
                capture.complete()
            if not session.steps and error is None:
                self._say_why_there_are_no_steps(session)
            session.finish(status_of(error), error)

    def _say_why_there_are_no_steps(self, session: Session) -> None:
        if self._step is not None and self._step.is_used:
            session.faults.warn(
                "no step was completed: no optimizer step was seen in any step() block; "
                "give trace() the optimizer that is stepped, or none"
            )
        elif not self._loop.has_loader:
            session.faults.warn(
                "no step was seen: request batches through tracer.batches(loader), or put step() "
                "around each step"
            )

    def __enter__(self) -> "Tracer":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(error)

    # -- the loop --------------------------------------------------------------------------------

    def batches(self, loader: Iterable[Batch]) -> Iterable[Batch]:
        """Wrap the training loader: waiting for its batches is `input_wait`.

        The wrapper may be iterated again each epoch, and kept. In a loop without `step()`, a step
        ends where the first batch after an update is requested.
        """
        session = self._session
        if session is None or not session.recording:
            return loader
        session.unmeasured.pop("input_wait", None)
        with session.faults.guard("the loader's configuration"):
            loader_setup, batch_size = describe_loader(loader)
            session.setup = replace(session.setup, loader=loader_setup, batch_size=batch_size)
        return trace_batches(loader, session, self._loop)

    def step(self) -> AbstractContextManager[None]:
        """Mark one step (or one micro-batch of it); it ends at the block's exit if there was an update."""
        return _NOTHING

    def mark(self, phase: str) -> None:
        """Charge the time from now on to `phase`, until the next mark or the step's end.

        The cheapest form of explicit marks: one call per boundary.

        Raises:
            KeyError: No phase has that name.
        """
        if phase not in _MARKS:
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

    def log(self, **values: object) -> None:
        """Log numbers at the step that is open, e.g. `log(loss=loss)`."""
        log(**values)

    def count(self, samples: int | None = None, tokens: int | None = None) -> None:
        """Add to the sizes of the step that is open, where batches do not tell them."""
        session = self._session
        if session is not None and session.recording:
            session.capture.count(samples, tokens)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def run_folder(self) -> Path | None:
        """Give the folder of the run; None if tracing is off."""
        return None if self._session is None else self._session.folder

    def summary(self) -> "Summary":
        """Give the summary as of now, during the run or after it; empty if there is nothing to read."""
        from traintrace_reporting import Summary, summarise_run

        session, summary = self._session, Summary()
        if session is not None:
            with session.faults.guard("the summary that was asked for"):
                session.flush()
                summary = summarise_run(session.as_run())
        return summary
