"""The tracer of a hand-written training loop: its span, and what it offers inside."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from traintrace.errors import UsageError
from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.pytorch.batches import trace_batches
from traintrace.pytorch.loopstate import LoopState, end_last_step
from traintrace.pytorch.setup import describe_loader
from traintrace.registry import ALREADY_TRACED, REGISTRY
from traintrace.session import status_of
from traintrace_plain_torch.blocks import StepBlock
from traintrace_plain_torch.marks import MARKS, Marks
from traintrace_plain_torch.notebook import forgotten_tracers
from traintrace_plain_torch.seams import follow_model, open_session
from traintrace_plain_torch.silence import why_there_are_no_steps

if TYPE_CHECKING:
    from traintrace_reporting import Summary

Batch = TypeVar("Batch")


class Tracer(Marks):
    """Traces one span of a hand-written loop. Where tracing is off, everything passes through.

    Attributes:
        is_manual: True if the span was begun by `start()`, which no `with` block is sure to end.
    """

    def __init__(
        self,
        model: nn.Module | None,
        optimizer: Any,
        options: TraceOptions,
        *,
        awaits_update: bool,
    ) -> None:
        if not isinstance(model, (nn.Module, type(None))):
            raise UsageError(
                f"model must be a torch.nn.Module or None, and is a {type(model).__name__}; the optimizer "
                "comes second, and further models are named by tracer.follow(model)"
            )
        self._models = [] if model is None else [model]
        self._optimizer = optimizer
        self._options = options
        self._awaits_update = awaits_update
        self._step: StepBlock | None = None
        super().__init__()
        self.is_manual = False

    # -- the span --------------------------------------------------------------------------------

    def start(self) -> "Tracer":
        """Begin the span; `close` ends it, and after that it begins a new run.

        In a notebook a span that `start` began may be left open by a cell that raised: the next
        `start` ends it as interrupted and begins a new run.
        """
        if self._begin():
            self.is_manual = True
        return self

    def _begin(self) -> bool:
        """Begin the span and say so; False if tracing is off or a span is open."""
        if not self._options.enabled:
            REGISTRY.make_way()  # the script said that it is not to be traced
            return False
        for tracer in forgotten_tracers(self):
            tracer.interrupt()
        if self.is_active:
            return False
        faults = FaultReporter(REGISTRY.raise_faults)
        if not REGISTRY.make_way():
            faults.warn(ALREADY_TRACED)
            return False
        with faults.guard("the whole trace"):
            self._open()
        return self.is_active

    def _open(self) -> None:
        loop = self._loop = LoopState()
        del self._models[1:]  # others join when the loop comes to them
        model = self._models[0] if self._models else None
        session = open_session(model, self._optimizer, self._options, loop)
        session.close_at_exit, session.tracer = self.close, self
        with session.setting_up():
            block = StepBlock(session, loop, model, self._optimizer, self._awaits_update)
        self._step = block
        # Bound to this session, and one call instead of two: marks are what a user pays most for.
        self.mark = session.journal.named_marker(MARKS)  # type: ignore[assignment, method-assign]
        # The same for `step`: the block is one object, handed out again without a call of ours.
        self.step = itertools.repeat(block).__next__  # type: ignore[method-assign]
        self.is_manual = False
        self._session = session

    @property
    def is_active(self) -> bool:
        """Say whether a span was begun and not closed, be it recorded to its end or not."""
        return self._session is not None and not self._session.finished

    def close(self, error: BaseException | None = None) -> None:
        """End the span at this instant and make the report; a second call does nothing."""
        session = self._session
        if session is None or session.finished:
            return
        with session.faults.guard("the end of the run"):
            if error is None:
                end_last_step(session, self._loop)
            if not session.steps and error is None:
                session.faults.warn(why_there_are_no_steps(session, self._step, self._loop))
            session.finish(status_of(error), error)

    @property
    def is_closed(self) -> bool:
        """Say whether a span was begun and has ended."""
        return self._session is not None and self._session.finished

    def interrupt(self) -> None:
        """End a span that was left open, and say so once."""
        session = self._session
        if session is not None and not session.finished:
            session.faults.warn(
                "the span before was still open; it was ended as interrupted, and a new one records"
            )
            session.finish("interrupted")

    def follow(self, model: nn.Module) -> None:
        """Charge the calls of `model` to `forward` as well, e.g. of a discriminator; a second call adds nothing."""
        session = self._session
        if session is None or not session.recording:
            return
        for known in self._models:
            if known is model:
                return
        self._models.append(model)
        with session.faults.guard("the forward of another model"):
            follow_model(session, model)

    def __enter__(self) -> "Tracer":
        self._begin()
        return self

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

    # -- reading ---------------------------------------------------------------------------------

    @property
    def run_folder(self) -> Path | None:
        """Give the folder of the run; None if tracing is off, and for a run at a URL."""
        return None if self._session is None else self._session.run_folder

    @property
    def run_place(self) -> str | None:
        """Give what `traintrace report` takes for the run: its path or URL; None if tracing is off."""
        return None if self._session is None else self._session.place

    def summary(self) -> "Summary":
        """Give the summary as of now, during the run or after it; empty if there is nothing to read."""
        from traintrace_reporting import Summary, summarise_run

        session, summary = self._session, Summary()
        if session is not None:
            with session.faults.guard("the summary that was asked for"):
                session.flush()
                summary = summarise_run(session.as_run())
        return summary
