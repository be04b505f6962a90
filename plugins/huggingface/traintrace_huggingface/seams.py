"""Install what sees a Trainer train, and undo it: on the instance wherever that is possible.

An attribute of the instance sees what a subclass overrides, and costs no other Trainer anything. What
is installed for an attempt goes when the attempt ends, also by an exception.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import accelerate.data_loader  # type: ignore[import-untyped]  # accelerate has no types
import torch
import transformers.trainer

from traintrace.accounts import BATCH_PREP, CLIP, COMMUNICATION, EPOCH_BOUNDARY, H2D
from traintrace.patching import replace_attribute
from traintrace.pytorch.backward import trace_backward
from traintrace.pytorch.collectives import trace_collectives
from traintrace.pytorch.forward import trace_forward
from traintrace.pytorch.optimizer import trace_foreign_optimizer, trace_optimizers
from traintrace.pytorch.ownwork import mark_own_work
from traintrace.pytorch.wrapping import reads_ahead
from traintrace.session import Session
from traintrace_huggingface import wrappers
from traintrace_huggingface.boundaries import Boundaries
from traintrace_huggingface.events import APART, events
from traintrace_huggingface.setup import (
    collects_as_usual,
    describe,
    moves_batches,
    updates_in_backward,
)


class Seams:
    """What is installed for one `train()`."""

    def __init__(self, session: Session, trainer: Any) -> None:
        self._session = session
        self._journal = session.journal
        self._trainer = trainer
        self._phases = session.level != "step"
        self._attempt = ExitStack()
        self._failure: str | None = None
        self._model: Any = None
        self._boundaries = Boundaries(
            session,
            trainer,
            moves=moves_batches(trainer),
            sees_input=collects_as_usual(trainer),
        )

    def install(self) -> None:
        """Install what lasts for the whole `train()`."""
        session, trainer = self._session, self._trainer
        self._say_what_is_missing()
        in_backward = updates_in_backward(trainer)
        hooks = [trace_optimizers(session, charge=self._phases and not in_backward)]
        if self._phases:
            hooks += [trace_backward(self._journal), trace_collectives(session)]
        for installed in hooks:
            for undo in installed:
                session.undo.callback(undo)
        session.undo.callback(self._end_attempt)

    def await_attempts(self) -> None:
        """Let the rest follow with each attempt."""
        self._put(self._session.undo, self._trainer, "_inner_training_loop", self._attempts)

    def join_attempt(self) -> None:
        """Install the rest at once: the inner loop is running, and nobody sees how it is left."""
        self._begin_attempt(self._trainer._train_batch_size)
        self._describe()

    def _say_what_is_missing(self) -> None:
        session = self._session
        if not self._boundaries.sees_input:
            reason = f"{type(self._trainer).__name__}.get_batch_samples is not the Trainer's own"
            session.unmeasured["input_wait"] = reason
            session.faults.warn(
                f"traintrace cannot tell what is waiting for input: {reason}; its time counts as batch_prep"
            )
        if not self._phases:
            for name in ("h2d", "forward", "backward", "optimizer"):
                session.unmeasured[name] = 'the trace level is "step"'
            return
        if not self._boundaries.moves:
            session.unmeasured["h2d"] = "no device"
        if updates_in_backward(self._trainer):
            session.unmeasured["optimizer"] = "updates are made inside backward"

    def _put(
        self,
        patches: ExitStack,
        owner: Any,
        name: str,
        wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        original = getattr(owner, name, None)
        if original is not None:  # some are younger than transformers 4.46
            patches.callback(replace_attribute(owner, name, wrap(original)))

    # -- an attempt ------------------------------------------------------------------------------

    def _attempts(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)  # accelerate reads the signature
        def _inner_training_loop(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self._journal.owner:
                if self._failure is not None:  # recording ended before the loop started over
                    self._session.abandon_steps()
                return original(*args, **kwargs)
            try:
                self._begin_attempt(args[0] if args else kwargs.get("batch_size"))
                return original(*args, **kwargs)
            except BaseException as error:
                self._failure = type(error).__name__
                self._boundaries.drop_step()
                raise
            finally:
                self._end_attempt()

        return _inner_training_loop

    def _begin_attempt(self, batch_size: object) -> None:
        self._boundaries.begin_attempt(batch_size, self._failure)
        with self._session.faults.guard("the boundaries of this attempt"):
            self._install_attempt()

    def _end_attempt(self) -> None:
        self._model = None
        with self._session.faults.guard("some hooks stay installed"):
            self._attempt.close()

    def _install_attempt(self) -> None:
        trainer, boundaries, journal = self._trainer, self._boundaries, self._journal
        put = functools.partial(self._put, self._attempt)
        put(trainer, "get_batch_samples", wrappers.collection(boundaries))
        put(
            torch.utils.data.DataLoader, "__iter__", wrappers.collecting(boundaries, EPOCH_BOUNDARY)
        )
        fetches = getattr(torch.utils.data.dataloader, "_BaseDataLoaderIter", None)
        put(fetches, "__next__", wrappers.fetch(boundaries))
        put(transformers.trainer, "skip_first_batches", self._skipping)
        put(trainer, "training_step", self._training_step)
        after: dict[str, Callable[[], None]] = {
            "on_train_begin": self._describe,
            "on_epoch_begin": boundaries.begin_epoch,
            "on_step_end": boundaries.end_step,
            "on_epoch_end": boundaries.end_epoch,
            "on_train_end": boundaries.end_training,
        }
        handler = trainer.callback_handler
        put(handler, "call_event", events(boundaries, handler, after))
        put(trainer, "_maybe_log_save_evaluate", wrappers.log_save_evaluate(boundaries, trainer))
        put(trainer, "log", wrappers.log(boundaries))
        for name, account in APART.items():
            put(trainer, name, wrappers.apart(boundaries, account))
        if not self._phases:
            return
        put(trainer.accelerator, "clip_grad_norm_", wrappers.charged(journal, CLIP))
        put(trainer, "_get_num_items_in_batch", wrappers.collecting(boundaries, BATCH_PREP))
        if trainer.args.world_size > 1:
            put(trainer.accelerator, "gather", wrappers.collecting(boundaries, COMMUNICATION))
        if boundaries.moves:
            put(accelerate.data_loader, "send_to_device", wrappers.send(boundaries))
            put(trainer, "_prepare_inputs", wrappers.charged(journal, H2D))

    def _describe(self) -> None:
        """Everything is prepared: say what trains, and trace the model that will be called."""
        trainer, session = self._trainer, self._session
        with session.faults.guard("the description of what trains"):
            loader = trainer.callback_handler.train_dataloader
            session.setup = describe(trainer, loader)
            self._boundaries.describe_steps(reads_ahead(loader))
        with session.faults.guard("forward, and an optimizer that is not torch's"):
            if self._phases:
                self._keep(trace_foreign_optimizer(session, trainer.optimizer))
            self._trace_model(trainer.model_wrapped)

    def _trace_model(self, model: Any) -> None:
        self._model = model
        if not self._phases:
            return
        if isinstance(model, torch.jit.ScriptModule):
            self._session.unmeasured["forward"] = "the calls of a ScriptModule cannot be seen"
            return
        self._keep(trace_forward(self._journal, [model]))
        self._keep(mark_own_work(self._session, model))

    def _keep(self, installed: Iterator[Callable[[], None]]) -> None:
        for undo in installed:
            self._attempt.callback(undo)

    def _training_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        journal, micro_batch = self._journal, self._boundaries.micro_batch

        @functools.wraps(original)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            if get_ident() == journal.owner:
                model = args[0] if args else kwargs.get("model")
                if model is not self._model:  # never the module inside a DDP or compiled wrapper
                    with self._session.faults.guard("forward"):
                        self._trace_model(model)
                micro_batch(args[1] if len(args) > 1 else kwargs.get("inputs"))
            return original(*args, **kwargs)

        return training_step

    def _skipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        trainer = self._trainer

        @functools.wraps(original)
        def skip_first_batches(*args: Any, **kwargs: Any) -> Any:
            loader = original(*args, **kwargs)
            if get_ident() == self._journal.owner and args:
                with self._session.faults.guard("which batches are skipped"):
                    # Another Trainer's loader is none of ours: a callback may run one.
                    if args[0] is trainer.callback_handler.train_dataloader:
                        self._skip(getattr(loader, "skip_batches", 0))
            return loader

        return skip_first_batches

    def _skip(self, batches: int) -> None:
        """So many batches will be fetched for nothing: 0 for map-style data, whose sampler skips."""
        self._boundaries.skip = batches
        if batches and not (self._phases and self._boundaries.moves):
            send = wrappers.send(self._boundaries)
            self._put(self._attempt, accelerate.data_loader, "send_to_device", send)
