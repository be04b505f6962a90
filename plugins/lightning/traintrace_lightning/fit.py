"""One traced `fit`: its session, and what happens at those boundaries that are more than one mark."""

import sys
from collections.abc import Callable
from typing import Any

from traintrace.accounts import H2D, INPUT_WAIT, TUNING
from traintrace.facts import EPOCH_FIRST, LOOKAHEAD, PARTIAL_GROUP, WARMUP
from traintrace.pytorch.sizes import batch_sizes
from traintrace.recording.journal import EXHAUSTED, OPEN, RETRACT, SWITCH
from traintrace.session import Session
from traintrace_lightning.logged import LoggedMetrics
from traintrace_lightning.opening import has_transfer
from traintrace_lightning.parts import TracedParts

Mark = Callable[[], None]


class TracedFit:
    """The state of one traced `fit`.

    Attributes:
        session: Where its boundaries are written.
        trainer: The Trainer that fits.
        callback: The callback that traces; it is missing from `trainer.callbacks` during the trial
            runs of a tuner.
        forward_is_training_step: All of `training_step` is `forward`: the calls inside it cannot be
            seen.
        iterates_itself: The module takes the loader's iterator and fetches inside its
            `training_step`.
        on_end: Called when the fit failed, with its error; or with None when it went well and all
            callbacks have been torn down.
        moves_batches: There is a transfer to time.
        logged: Keeps what the module logs with `self.log`.
        parts: The modules whose calls are `forward`; None if none are traced.
        forget_events: Forgets how events were classified, for when one of the facts above changes.
    """

    def __init__(
        self,
        session: Session,
        trainer: Any,
        callback: object,
        on_end: Callable[["TracedFit", BaseException | None], None],
    ) -> None:
        self.session = session
        self.trainer = trainer
        self.callback = callback
        self.on_end = on_end
        self.forward_is_training_step = False
        self.iterates_itself = False
        self.parts: TracedParts | None = None
        self.forget_events: Mark = lambda: None
        self.moves_batches = session.level != "step" and has_transfer(trainer)
        if session.level != "step" and not self.moves_batches:
            session.unmeasured["h2d"] = "no device"
        self._loop_moves = False  # a fetch that ends now is followed by a transfer
        self._moving = False
        self.logged = LoggedMetrics(session, trainer)
        self._trials = 0
        self._holds_batch = False
        self._opened_on_trial = False  # a step opened, and no batch has come yet
        self._found_end = False  # ... and none will come
        self._batch_flags = 0
        self._step_seen: int = trainer.global_step
        # `fit` may be called while an exception is handled, and so may a fetch: those are not ours.
        self._handled_outside = sys.exc_info()[1]
        self._handled_before: BaseException | None = None
        self._open_memory = session.open_memory
        journal = session.journal
        self._enter_wait = journal.marker(INPUT_WAIT)
        self._leave_wait = journal.marker(~INPUT_WAIT)
        self._exhausted = journal.marker(EXHAUSTED)
        self._open_step = journal.marker(OPEN)
        self._leave_move = journal.marker(~H2D)
        self._switch_to_move = journal.marker(SWITCH + H2D)

    # -- boundaries, in the order in which a micro-batch meets them --------------------------------

    def training_starts(self) -> None:
        """All is restored from a checkpoint and no step has run."""
        self._step_seen = self.trainer.global_step

    def epoch_starts(self) -> None:
        """An epoch of training begins, or one of a tuner's trial runs."""
        self._loop_moves = False
        if self._trials or self.callback not in self.trainer.callbacks:
            self._trials += 1
            self.session.journal.write(TUNING)
            return
        self._batch_flags = EPOCH_FIRST
        if self.parts is not None:
            self.parts.renew()

    def batches_start(self) -> None:
        """The epoch's iterator is there; the loop fetches from now on."""
        fetcher = self.trainer.fit_loop._data_fetcher
        # By name: the class differs between Lightning's two names.
        kind = type(fetcher).__name__
        self.iterates_itself = kind == "_DataLoaderIterDataFetcher"
        if self.iterates_itself:
            self.session.unmeasured["h2d"] = "the training step moves its own batches"
        # Only data without a length is fetched one ahead, to know which batch is the last.
        self._holds_batch = kind == "_PrefetchDataFetcher" and fetcher.length is None
        self._loop_moves = self.moves_batches and not self.iterates_itself

    def step_opens(self) -> None:
        """A module that fetches for itself is about to be called, though the data may have ended."""
        if self._trials:
            return
        self._opened_on_trial = not self.session.capture.micro_batches
        self._found_end = False
        self._open_step()

    def batch_requested(self) -> None:
        """The loop, or the user's step, asks for a training batch."""
        if self._open_memory is not None and not self.session.capture.micro_batches:
            self._open_memory()
        self._handled_before = sys.exc_info()[1]
        self._enter_wait()

    def batch_fetched(self) -> None:
        """The batch is there, or the data ended. The loop moves a batch at once: one mark for both."""
        error, before, self._handled_before = sys.exc_info()[1], self._handled_before, None
        # Where the loop fetches one ahead, the batch that it holds is delivered all the same.
        if isinstance(error, StopIteration) and error is not before and not self._holds_batch:
            self._exhausted()
            self._leave_wait()
            self._found_end = self._opened_on_trial
            return
        self._opened_on_trial = self._found_end = False
        if self._loop_moves:
            self._moving = True
            self._switch_to_move()
        else:
            self._leave_wait()

    def batch_moved(self) -> None:
        """The batch is on the device. Evaluation moves its batches too; that is not ours to time."""
        if self._moving:
            self._moving = False
            self._leave_move()

    def epoch_ends(self) -> None:
        """An epoch ends; a group that is still open then will never update."""
        if self._trials:
            self._trials -= 1
            self.session.journal.write(~TUNING)
        elif self.session.recording:
            self._drop_step()

    def _drop_step(self) -> None:
        capture = self.session.capture
        if self._opened_on_trial and not self._is_failing():
            # The module asked for a batch and found out that the data had ended: no step had begun.
            self.session.journal.write(RETRACT)
        else:
            capture.abort()
        self._opened_on_trial = self._found_end = False

    def count_batch(self, batch: Any) -> None:
        """Count a micro-batch whose training step has run."""
        if self._found_end:  # manual optimization goes on as if there were a batch
            return
        capture = self.session.capture
        capture.micro_batches += 1
        capture.flags |= self._batch_flags
        self._batch_flags = 0
        samples, tokens, padded_tokens = batch_sizes(batch)
        if samples is not None:
            capture.count(samples, tokens, padded_tokens)

    def micro_batch_ended(self) -> None:
        """A micro-batch is over, all hooks included: it may be the end of a step.

        `global_step` counts the updates of Lightning's own optimizers. Under manual optimization raw
        optimizers may update and several may update in turn: there each batch is a step.
        """
        session, trainer = self.session, self.trainer
        if self._trials or not session.recording:
            return
        if self._found_end:
            self._drop_step()
            return
        capture, step = session.capture, trainer.global_step
        if step == self._step_seen and trainer.lightning_module.automatic_optimization:
            if self._group_ended():
                capture.abort()  # nothing was updated, and the gradients are zeroed next
            return
        self._step_seen = capture.framework_step = step
        capture.epoch = trainer.current_epoch
        if self._holds_batch:
            capture.flags |= LOOKAHEAD
        accumulation = trainer.accumulate_grad_batches
        if accumulation > 1 and capture.micro_batches < accumulation:
            capture.flags |= PARTIAL_GROUP
        if self.parts is not None and not self.parts.sees_all_of(capture):
            capture.flags |= WARMUP  # its forward is null; statistics leave it out
        if self.logged.of_batches:
            self.logged.take()
        capture.complete()
        if self.parts is not None and self.parts.searching and session.recording:
            self._settle_forward(self.parts)

    def is_over(self) -> None:
        """The last hook of a fit is over. If it raised, `on_exception` follows."""
        if not self._is_failing():
            self.logged.take_rest()
            self.on_end(self, None)

    def fails(self) -> None:
        """The first callback is about to be told of an error: a failing fit reports nothing else.

        The span ends before that, since a callback that raises keeps those after it from being told.
        """
        error = sys.exc_info()[1]
        if error is not None and not self.is_running:
            self.on_end(self, error)

    @property
    def is_running(self) -> bool:
        """Say whether the Trainer is still at it, and was not interrupted by an error."""
        return bool(self.trainer.state.status == "running")

    def _is_failing(self) -> bool:
        return sys.exc_info()[1] is not self._handled_outside

    def _group_ended(self) -> bool:
        trainer = self.trainer
        batches = trainer.fit_loop.batch_idx + 1
        return bool(batches % trainer.accumulate_grad_batches == 0 or trainer.is_last_batch)

    def _settle_forward(self, parts: TracedParts) -> None:
        """After each step of the search: where no call of the model is seen, look for it elsewhere."""
        if parts.look_inside() or parts.hold_parameters():
            return
        self.parts = None
        self.forward_is_training_step = True
        self.session.add_event(
            "approximation",
            "forward is all of training_step: no call of a module with parameters can be seen in it",
        )
        self.forget_events()
