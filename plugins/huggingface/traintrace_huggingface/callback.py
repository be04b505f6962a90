"""The callback: all that a user adds. What it sees of a `Trainer`, as a table.

| event of the Trainer (where it is seen)               | boundary                                      |
|-------------------------------------------------------|-----------------------------------------------|
| `Trainer.train` entered, left                         | the span begins (`startup`), ends             |
| `_inner_training_loop` entered                        | an attempt begins: the rest is installed      |
| ... entered again (`auto_find_batch_size`)            | all steps so far are `aborted`: they count no more |
| `_inner_training_loop` raised                         | the open step is `aborted`; all is undone     |
| `on_epoch_begin` done                                 | `epoch_boundary`; an open group is carried    |
| `get_batch_samples`                                   | the step opens; `input_wait`                  |
| ... brought no batch                                  | that wait was `epoch_boundary`, no step opens |
| `DataLoader.__iter__` inside it                       | `epoch_boundary`: workers start               |
| `send_to_device` inside it                            | `h2d`; while batches are skipped, `resume_skip` |
| `_get_num_items_in_batch` inside it                   | `batch_prep`                                  |
| `accelerator.gather` inside it                        | `communication`                               |
| `training_step(model, inputs)`                        | a micro-batch; `model` is what is traced      |
| `_prepare_inputs`                                     | `h2d`                                         |
| `model(...)`                                          | `forward`                                     |
| `torch.autograd.backward`                             | `backward`                                    |
| `accelerator.clip_grad_norm_`                         | `clip`                                        |
| a torch optimizer's own step                          | `optimizer`; accelerate's share is `other`    |
| `on_step_end` done                                    | the step is complete                          |
| `_maybe_log_save_evaluate` with something to log, `log` | `logging`                                   |
| `evaluate`                                            | `evaluation`                                  |
| `predict`                                             | `prediction`                                  |
| `_save_checkpoint`, `save_model`, `on_save`           | `checkpoint`                                  |
| any other event, if a foreign callback listens        | `callbacks`                                   |
| `on_epoch_end` done                                   | `gap`; if training stops, an open group is `aborted` |
| `on_train_end` done                                   | `shutdown`                                    |

Events are seen where the Trainer calls all its callbacks, not by methods of this one: so its place in
the list of callbacks does not matter. Only where `Trainer.train` is never called does the training begin
with our own `on_train_begin` and end with our own `on_train_end`; if it raised, the next training of
this thread ends it.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

from transformers.trainer_callback import TrainerCallback

from traintrace.faults import FaultReporter
from traintrace.options import LevelOption, TraceOptions
from traintrace.registry import ALREADY_TRACED, REGISTRY
from traintrace.session import EndStatus, Session, status_of
from traintrace_huggingface.opening import open_session
from traintrace_huggingface.owner import is_on_stack, trainer_that_calls
from traintrace_huggingface.shim import hold_shim, leave_what_is_over

if TYPE_CHECKING:
    from traintrace_reporting import Summary


class TraceCallback(TrainerCallback):
    """Trace what this callback's Trainer does in `train()`; each call is a run of its own.

    Args:
        run_dir: Folder that holds runs.
        name: Name of this run; None makes one.
        level: See `traintrace.TraceOptions`.
        enabled: False installs nothing and costs nothing.
        max_steps: Stop recording after this many steps; training goes on.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Record the memory of each step.
        print_report: Print the report to stderr when training ends.
        flops_per_step: Operations of one step on a rank, or "count" to count those of a few steps.
        peak_tflops: What the device can do [1e12 operations/s]; None looks it up by its name.
        profile_steps: First and last of the steps that torch.profiler traces, into the run's folder.

    Raises:
        UsageError: An option has an impossible value.
    """

    def __init__(
        self,
        *,
        run_dir: str | Path = "runs",
        name: str | None = None,
        level: LevelOption = "auto",
        enabled: bool = True,
        max_steps: int | None = None,
        warmup_steps: int | None = None,
        step_memory: bool = True,
        print_report: bool = True,
        flops_per_step: float | Literal["count"] | None = None,
        peak_tflops: float | None = None,
        profile_steps: tuple[int, int] | None = None,
    ) -> None:
        self._options = TraceOptions(
            run_dir=run_dir,
            name=name,
            level=level,
            enabled=enabled,
            max_steps=max_steps,
            warmup_steps=warmup_steps,
            step_memory=step_memory,
            print_report=print_report,
            flops_per_step=flops_per_step,
            peak_tflops=peak_tflops,
            profile_steps=profile_steps,
        )
        self._session: Session | None = None
        self._asked: list[Any] = []  # the Trainers whose `train` the shim asked about
        self._joined: Any = None  # the Trainer whose training was joined
        if enabled:
            hold_shim(self)

    @classmethod
    def from_options(cls, options: TraceOptions) -> "TraceCallback":
        """Make one from options that a launcher was given; they are more than a script needs."""
        callback = cls(enabled=options.enabled)
        callback._options = options
        return callback

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process, trial or Trainer starts clean, and has its own share of the shim.
        return _rebuild, (type(self), self._options)

    def trace(self, trainer: Any, train: Callable[[], Any]) -> Any:
        """Call `train`, traced unless this thread is traced already; the shim's way in.

        Gives what `train` gives, and raises what it raises.
        """
        if any(one is trainer for one in self._asked):
            return train()  # a second shim, under another tool's patch of `Trainer.train`
        self._asked.append(trainer)
        session: Session | None = None
        error: BaseException | None = None
        try:
            session = self._open(trainer)
            return train()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._asked = [one for one in self._asked if one is not trainer]
            if session is not None:
                with session.faults.guard("the end of the run"):
                    session.finish(status_of(error), error)
            del error  # it holds this frame, which would hold it

    def _open(self, trainer: Any) -> Session | None:
        leave_what_is_over()
        faults = FaultReporter(REGISTRY.raise_faults)
        if not REGISTRY.make_way():
            faults.warn(ALREADY_TRACED)
            return None
        session: Session | None = None
        with faults.guard("the whole trace"):
            session = self._session = open_session(trainer, self._options)
        return session

    # -- a Trainer that never goes through `Trainer.train` ---------------------------------------

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Join a training that the shim was not asked about; what raises in it ends unseen."""
        if self._asked or not self._options.enabled:
            return
        leave_what_is_over()
        self._leave("failed")  # the same Trainer begins anew, and never told the end before
        trainer = trainer_that_calls(self) if REGISTRY.make_way() else None
        if trainer is None:
            return
        faults = FaultReporter(REGISTRY.raise_faults)
        with faults.guard("the whole trace"):
            session = self._session = open_session(trainer, self._options, is_training=True)
            session.close_at_exit = functools.partial(session.finish, "failed")
            self._joined = trainer
            session.faults.warn(
                f"{type(trainer).__name__}.train() does not call Trainer.train(): its start-up is not "
                "recorded, and an exception in it is not seen. Let it call super().train() to have both"
            )

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """Leave a training that was joined."""
        self._leave("completed")

    def leave_if_over(self) -> None:
        """Leave a training that was joined and ended by an exception, which nobody told us of."""
        session = self._session
        if self._joined is not None and session is not None:
            if session.journal.owner == get_ident() and not is_on_stack(self._joined):
                self._leave("failed")

    def _leave(self, status: EndStatus) -> None:
        session = self._session
        if self._joined is not None and session is not None:
            self._joined = None
            with session.faults.guard("the end of the run"):
                session.finish(status)

    @property
    def run_folder(self) -> Path | None:
        """Give the folder of the latest run; None before the first, if tracing is off, and for a run at a URL."""
        return None if self._session is None else self._session.run_folder

    @property
    def run_place(self) -> str | None:
        """Give what `traintrace report` takes for the latest run: its path or URL; None if there is none."""
        return None if self._session is None else self._session.place

    def summary(self) -> "Summary":
        """Give the summary as of now, during the run or after it; empty if tracing is off."""
        from traintrace_reporting import Summary, summarise_run

        session = self._session
        if session is None:
            return Summary()
        session.flush()
        return summarise_run(session.as_run())


def _rebuild(kind: type[TraceCallback], options: TraceOptions) -> TraceCallback:
    return kind.from_options(options)
