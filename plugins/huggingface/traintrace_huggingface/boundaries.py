"""What an event of the Trainer means: the state of one `train()`, and the marks that follow from it.

Nothing here knows how an event was seen; `seams` calls these methods. A fault in one costs what its
decorator says, once reported, and nothing else.
"""

import functools
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from traintrace import facts
from traintrace.accounts import (
    EPOCH_BOUNDARY,
    GAP,
    INPUT_WAIT,
    LOGGING,
    RESUME_SKIP,
    SHUTDOWN,
    STARTUP,
)
from traintrace.pytorch.setup import weigh_first_batch
from traintrace.pytorch.sizes import batch_sizes
from traintrace.recording.journal import BASE, EXHAUSTED, OPEN, RETRACT
from traintrace.session import Session

Method = TypeVar("Method", bound=Callable[..., None])
# What the Trainer logs about its own speed and place; the rest is kept as it is logged.
OWN_FIGURES: Final = ("epoch", "step", "total_flos", "num_input_tokens_seen", "train_loss")
OWN_ENDINGS: Final = ("_runtime", "_per_second", "_preparation_time")


def _guarded(what_is_lost: str) -> Callable[[Method], Method]:
    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: "Boundaries", *args: Any) -> None:
            try:
                method(self, *args)
            except Exception as error:  # noqa: BLE001 - reported, with what is lost
                self.session.faults.fault(error, what_is_lost)

        return call  # type: ignore[return-value]  # the same signature

    return decorate


class Boundaries:
    """The state of one traced `train()`.

    Attributes:
        collecting: True inside a collection of batches whose parts are charged, except while a loader
            of torch fetches one.
        logging: True while a `logging` entry of `_maybe_log_save_evaluate` is open.
        moves: Batches are moved to another device.
        sees_input: The wait for input can be told apart; False if the user replaced the collection.
        skip: Batches that are still to be skipped after a resume.
        is_open: A step is open. attempt: starts of the inner loop so far.
    """

    def __init__(self, session: Session, trainer: Any, *, moves: bool, sees_input: bool) -> None:
        self.session = session
        self.moves = moves
        self.sees_input = sees_input
        self.collecting = self.logging = self.is_open = False
        self.skip = 0
        self.attempt = 0
        self._trainer = trainer
        self._flags = self._epoch_flags = 0
        self._sent_tokens: deque[int | None] = deque()
        self._is_weighed = False
        journal = session.journal
        self._enter_input = journal.marker(INPUT_WAIT)
        self._leave_input = journal.marker(~INPUT_WAIT)
        self._exhausted = journal.marker(EXHAUSTED)
        self._open = journal.marker(OPEN)
        self._leave_logging = journal.marker(~LOGGING)

    # -- attempts and epochs ---------------------------------------------------------------------

    @_guarded("where an attempt begins")
    def begin_attempt(self, batch_size: object, failure: str | None) -> None:
        """The inner loop starts: once, or again with a smaller batch after running out of memory."""
        self.attempt += 1
        self.skip = 0
        if self.attempt > 1:  # the loop starts over: what it had done is no part of this training
            self.session.abandon_steps()
            self.session.journal.write(BASE + STARTUP)
            detail = f"attempt {self.attempt} at batch size {batch_size}; the last ended: {failure}"
            self.session.add_event("attempt", detail)

    @_guarded("where a step was dropped")
    def drop_step(self) -> None:
        """The step that is open will not be completed."""
        self.collecting = self.logging = self.is_open = False
        self._sent_tokens.clear()
        self.session.capture.abort()

    def describe_steps(self, looks_ahead: bool) -> None:
        """Say whether the loader fetches one batch ahead, which every row then says."""
        self._flags = facts.LOOKAHEAD if looks_ahead else 0
        self._is_weighed = False  # nothing is known of this attempt's batches

    @_guarded("where an epoch begins")
    def begin_epoch(self) -> None:
        """All callbacks have seen the epoch begin."""
        self._epoch_flags = facts.EPOCH_FIRST
        if self.is_open:  # gradients of a short group go into the next update
            self.session.capture.flags |= facts.CARRIED
        else:
            self.session.journal.write(BASE + EPOCH_BOUNDARY)

    @_guarded("where an epoch ends")
    def end_epoch(self) -> None:
        """All callbacks have seen the epoch end."""
        if not self.is_open:
            self.session.journal.write(BASE + GAP)
        elif self._trainer.control.should_training_stop:
            self.drop_step()

    @_guarded("where training ends")
    def end_training(self) -> None:
        """All callbacks have seen training end."""
        if self.is_open:
            self.drop_step()
        self.session.journal.write(BASE + SHUTDOWN)

    # -- input -----------------------------------------------------------------------------------

    @_guarded("a wait for input")
    def begin_collection(self) -> None:
        """The batches of a group are requested."""
        if self._sent_tokens:  # of batches that training stopped short of
            self._sent_tokens.clear()
        if self.skip:
            self.session.journal.write(RESUME_SKIP)
            self.collecting = True
        else:
            self._request()

    def _request(self) -> None:
        if not self.is_open and self.session.open_memory is not None:
            self.session.open_memory()
        self.collecting = self.sees_input
        if self.sees_input:
            self._enter_input()
        elif not self.is_open:
            self._open()

    @_guarded("batches that were skipped after a resume")
    def skipped_one(self) -> None:
        """A batch that was trained on before has been fetched, and the next is about to be."""
        self.skip -= 1
        if self.skip == 0:
            self.session.journal.write(~RESUME_SKIP)
            self._request()

    @_guarded("the end of a wait for input")
    def end_collection(self, result: Any) -> None:
        """The request has returned `result`, or None if it raised."""
        was_skipping, self.skip = self.skip > 0, 0
        was_charged, self.collecting = self.collecting, False
        brought = result is not None and bool(result[0])
        is_dry = result is not None and not brought
        if was_skipping:
            self._end_untold_skip(brought)
        elif was_charged:
            if is_dry:
                self._exhausted()
            self._leave_input()
        elif is_dry and not self.is_open:
            self.session.journal.write(RETRACT)
        if brought:
            self.is_open = True
            self.session.capture.flags |= self._epoch_flags
            self._epoch_flags = 0

    def _end_untold_skip(self, brought: bool) -> None:
        """Nothing told where the skipping ended: all of the request counts as skipping.

        The step's own wait is in there too. So it has none of its own (null), and is kept out of all
        averages like a warm-up step; its update was made, so it is counted.
        """
        self.session.journal.write(~RESUME_SKIP)
        if not brought:
            return
        if not self.is_open:
            self._open()
        self.session.capture.flags |= facts.WARMUP
        detail = "the first wait for input cannot be told from skipping; its step is in no average"
        self.session.add_event("resume", detail)

    @_guarded("the tokens of a batch")
    def count_tokens(self, batch: Any) -> None:
        """A batch is about to leave the host, where its mask can be read without waiting."""
        self._sent_tokens.append(batch_sizes(batch)[1])

    # -- steps -----------------------------------------------------------------------------------

    @_guarded("the size of a batch")
    def micro_batch(self, inputs: Any) -> None:
        """A micro-batch is about to be trained on."""
        if not self.is_open:  # transformers 4.46: one collection may feed two updates
            self._open()
            self.is_open = True
        capture = self.session.capture
        capture.micro_batches += 1
        if not self._is_weighed:
            self._is_weighed = True
            weigh_first_batch(self.session, inputs)
        samples, tokens, padded_tokens = batch_sizes(inputs)
        if self._sent_tokens:
            tokens = self._sent_tokens.popleft() if tokens is None else tokens
        if samples is not None:
            capture.count(samples, tokens, padded_tokens)

    @_guarded("the end of a step")
    def end_step(self) -> None:
        """All callbacks have seen the step end: the update was made, or skipped by the scaler."""
        if not self.is_open:
            return
        self.is_open = False
        trainer, capture = self._trainer, self.session.capture
        state = trainer.state
        capture.framework_step = state.global_step
        if state.epoch is not None:
            # After the last step of epoch 0 `state.epoch` is 1.0.
            capture.epoch = max(0, math.ceil(state.epoch) - 1)
        capture.update_skipped = bool(trainer.accelerator.optimizer_step_was_skipped)
        capture.flags |= self._flags
        if capture.micro_batches < trainer.args.gradient_accumulation_steps:
            capture.flags |= facts.PARTIAL_GROUP
        capture.complete()

    # -- between steps ---------------------------------------------------------------------------

    def end_logging(self) -> None:
        """What `_maybe_log_save_evaluate` does from here on is no logging any more."""
        if self.logging:
            self.logging = False
            self._leave_logging()

    @_guarded("logged values")
    def logged(self, logs: Any) -> None:
        """The Trainer has logged; what it logs is about the step that was completed last."""
        for name, value in logs.items():
            if isinstance(value, (int, float)) and name not in OWN_FIGURES:
                if not name.endswith(OWN_ENDINGS):
                    self.session.log_completed(name, float(value))
