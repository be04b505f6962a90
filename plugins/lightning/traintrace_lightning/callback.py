"""`TraceCallback`, and the table that says which event of Lightning is which boundary.

A step of `fit`, as Lightning reports it, for a group of one micro-batch:

    train_dataloader_next   > the step opens, input_wait <
    batch_to_device         h2d ..................... <
    on_train_batch_start    other callbacks' hooks are callbacks
    optimizer_step          optimizer; its closure is other, and in it
      training_step           forward: the calls of the module's parts
      backward                backward
      on_before_optimizer_step, configure_gradient_clipping     clip
    on_train_batch_end      the module's own comes last < the step ends if `global_step` grew
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from traintrace.accounts import (
    CALLBACKS,
    CHECKPOINT,
    CLIP,
    COMMUNICATION,
    EPOCH_BOUNDARY,
    EVALUATION,
    FORWARD,
    LOGGING,
    OTHER,
    TUNING,
)
from traintrace.faults import FaultReporter
from traintrace.options import LevelOption, TraceOptions
from traintrace.pytorch.setup import weigh_first_batch
from traintrace.registry import ALREADY_TRACED, REGISTRY
from traintrace.session import EndStatus, Session, status_of
from traintrace_lightning import conditions, namespaces
from traintrace_lightning.fit import TracedFit
from traintrace_lightning.opening import describe, is_compiled, open_session
from traintrace_lightning.seams import Wrap, install_on_trainer, install_on_training, watch_for_end
from traintrace_lightning.stream import EventName, Row
from traintrace_lightning.terminal import close_progress_bar

if TYPE_CHECKING:
    from traintrace_reporting import Summary

namespaces.require()
namespaces.adopt()


# What comes last in a fit that went well.
LAST_EVENT: Final = EventName("LightningModule", "", "teardown")

# What Lightning's stream of events tells; see `Row`.
STREAM: Final = (
    Row("*", "train_dataloader_next", TracedFit.batch_requested, TracedFit.batch_fetched),
    Row("*", "run_training_epoch", TracedFit.epoch_starts, TracedFit.epoch_ends),
    Row("Strategy", "batch_to_device", None, TracedFit.batch_moved, conditions.moves_batches),
    Row("Strategy", "training_step", FORWARD, ~FORWARD, conditions.is_all_forward),
    Row(
        "LightningModule", "on_train_batch_start", TracedFit.step_opens, None, conditions.opens_late
    ),
    Row("LightningModule", "on_before_optimizer_step", CLIP, ~CLIP, conditions.is_users),
    Row("LightningModule", "configure_gradient_clipping", CLIP, ~CLIP, conditions.clips),
    Row("LightningModule", "on_train_batch_end", None, TracedFit.micro_batch_ended),
    Row("LightningModule", "on_train_epoch_start", CALLBACKS, ~CALLBACKS, conditions.is_users),
    Row("LightningModule", "on_train_epoch_end", CALLBACKS, ~CALLBACKS, conditions.is_users),
    Row(LAST_EVENT.owner, LAST_EVENT.hook, None, TracedFit.is_over),
    Row("Callback", "on_exception", TracedFit.fails),
    Row("Callback", "*", TUNING, ~TUNING, conditions.is_tuning),
    Row("Callback", "*", CALLBACKS, ~CALLBACKS, conditions.is_busy_callback),
)

# Calls that the stream does not tell, or not completely; see `Wrap`.
WRAPS: Final = (
    Wrap("", "save_checkpoint", CHECKPOINT),
    Wrap("fit_loop", "setup_data", EPOCH_BOUNDARY),
    Wrap("fit_loop.epoch_loop", "on_run_start", EPOCH_BOUNDARY, TracedFit.batches_start),
    Wrap("fit_loop.epoch_loop", "_broadcast_sigterm_tensor", COMMUNICATION),
    Wrap("fit_loop.epoch_loop.val_loop", "setup_data", EVALUATION),
    Wrap("fit_loop.epoch_loop.val_loop", "run", EVALUATION),
    Wrap("_logger_connector", "log_metrics", LOGGING),
    Wrap("precision_plugin", "clip_gradients", CLIP, where=conditions.clips_by_hand),
    Wrap("precision_plugin", "_wrap_closure", OTHER, where=conditions.times_phases),
)


class TraceCallback(namespaces.CallbackBase):
    """Trace `fit`: `Trainer(callbacks=[TraceCallback()])`, of `lightning.pytorch` or `pytorch_lightning`.

    Each `fit` is a run of its own. The other entry points (validate, test, predict) are not traced.

    Args:
        run_dir: Folder that holds runs.
        name: Name of the run; None makes one.
        level: See `traintrace.TraceOptions`.
        enabled: False traces nothing, at no cost.
        max_steps: Stop recording after this many steps; training goes on.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Record the memory of each step.
        print_report: Print the report to stderr at the end.
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
        super().__init__()
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
        self._session: Session | None = None  # of the newest run
        self._fits: list[TracedFit] = []  # those that last; several Trainers may share a callback

    @classmethod
    def from_options(cls, options: TraceOptions) -> "TraceCallback":
        """Make one from options that a launcher was given; they are more than a script needs."""
        callback = cls()
        callback._options = options
        return callback

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to a fit: a copy in another process traces a fit of its own."""
        # `log` and `log_dict` are methods of the module; Lightning hands them to every callback.
        kept = {k: v for k, v in vars(self).items() if k not in ("log", "log_dict")}
        return {**kept, "_session": None, "_fits": []}

    # -- reading ---------------------------------------------------------------------------------

    @property
    def run_folder(self) -> Path | None:
        """Give the folder of the newest run; None before there is one, and for a run at a URL."""
        return None if self._session is None else self._session.run_folder

    @property
    def run_place(self) -> str | None:
        """Give what `traintrace report` takes for the newest run: its path or URL; None before there is one."""
        return None if self._session is None else self._session.place

    def summary(self) -> "Summary":
        """Give the summary as of now, during the run or after it; empty before there is one."""
        from traintrace_reporting import Summary, summarise_run

        session = self._session
        if session is None:
            return Summary()
        session.flush()
        return summarise_run(session.as_run())

    # -- what the Trainer calls ------------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin the span of a `fit`; the first thing of it that a callback sees."""
        is_free = stage != "fit" or REGISTRY.make_way()
        if stage != "fit" or not self._options.enabled:
            return
        for fit in list(self._fits):
            if fit.trainer is trainer or not fit.is_running:
                self._end(fit, "failed")  # an earlier one that ended without a word
        if any(getattr(each, "_early_exit", False) for each in trainer.callbacks):
            return  # `Tuner` uses `fit` for its trials alone and leaves before the first step
        faults = FaultReporter(REGISTRY.raise_faults)
        if not is_free:
            faults.warn(ALREADY_TRACED)
            return
        with faults.guard("the whole trace"):
            self._begin(trainer, pl_module)

    def _begin(self, trainer: Any, pl_module: Any) -> None:
        session = open_session(trainer, self._options)
        with session.setting_up():
            fit = TracedFit(session, trainer, self, self._fit_ended)
            fit.forward_is_training_step = is_compiled(pl_module)
            install_on_trainer(fit, STREAM, WRAPS)
            session.begin()
        self._session = session
        self._fits.append(fit)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Put the seams of the work itself in place; the model and its copies are made by now."""
        fit = self._fit_of(trainer)
        if fit is None or not fit.session.recording:
            return
        # Described first: our own seams look like a compiled part.
        with fit.session.faults.guard("the run's configuration"):
            fit.session.setup = describe(trainer)
        with fit.session.faults.guard("the phases of this run"):
            fit.training_starts()
            install_on_training(fit)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the micro-batch. Its end comes later, after every other callback's hook."""
        fit = self._fit_of(trainer)
        if fit is None or not fit.session.recording:
            return
        try:
            fit.count_batch(batch)
            if fit.session.setup.batch_bytes is None and not fit.session.steps:
                weigh_first_batch(fit.session, batch)
        except Exception as error:  # noqa: BLE001 - reported, with what is lost
            fit.session.faults.fault(error, "the size of a batch")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End a fit that failed after its recording had stopped; else the stream told it before."""
        fit = self._fit_of(trainer)
        if fit is not None:
            self._fit_ended(fit, exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """See to it that a `fit` that went well ends even if recording stopped before.

        It ends with the module's own teardown, which comes after every callback's: only then have all
        progress bars closed.
        """
        fit = self._fit_of(trainer)
        if stage == "fit" and fit is not None and not fit.session.recording:
            with fit.session.faults.guard("the report"):
                watch_for_end(fit, LAST_EVENT)

    def _fit_of(self, trainer: Any) -> TracedFit | None:
        return next((fit for fit in self._fits if fit.trainer is trainer), None)

    def _fit_ended(self, fit: TracedFit, error: BaseException | None) -> None:
        if error is not None and self._options.print_report:
            with fit.session.faults.guard("a terminal without a progress bar"):
                close_progress_bar(fit.trainer)
        # SIGTERM reaches Lightning as a SystemExit without a code.
        is_sigterm = type(error).__name__ == "SIGTERMException"
        self._end(fit, "interrupted" if is_sigterm else status_of(error), error)

    def _end(self, fit: TracedFit, status: EndStatus, error: BaseException | None = None) -> None:
        if fit in self._fits:
            self._fits.remove(fit)
        with fit.session.faults.guard("the end of the run"):
            fit.session.finish(status, error)
            fit.session.undo.close()  # what still watched for the end
