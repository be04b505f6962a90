"""Count the matrix work of a few real steps: what their own forward and backward calls compute.

Nothing is run that training does not run. While a call of a counted step lasts, a dispatch mode sees each
operation, lets it do what it would do, and notes its size. The formulas are torch's own
(`torch.utils.flop_counter`), and a few for what it leaves out; unlike torch's mode, ours takes no operation
apart and puts no hook on any module, so results stay the same to the bit.

Not counted: evaluation and what else runs without gradients outside the model, the optimizer, and steps in
which counting could change something (`flop_refusals`), for which the run says why.
"""

import threading
from collections.abc import Sequence
from typing import Final

import torch

from traintrace.accounts import BACKWARD, FORWARD, INPUT_WAIT
from traintrace.facts import FLOPS_COUNTED
from traintrace.flopfacts import CountedStep, FlopFacts
from traintrace.pytorch.flop_formulas import uses_tf32
from traintrace.pytorch.flop_refusals import reason_against, reason_against_backward
from traintrace.pytorch.flop_tally import StepTally
from traintrace.pytorch.flop_watcher import FlopWatcher
from traintrace.pytorch.graphs import outside_graphs
from traintrace.recording.journal import OPEN
from traintrace.session import Session

# Counted steps, after the warm-up that was asked for: few, and apart, so that batches differ.
COUNTED_STEPS: Final = (3, 8, 21, 55, 144)


class StepFlopCounter:
    """Counts the steps of one session; told by its journal where forward and backward are."""

    def __init__(self, counted_steps: Sequence[int] = COUNTED_STEPS) -> None:
        self._wanted = list(counted_steps)
        self._tallies: dict[int, StepTally] = {}
        self._unknown: set[str] = set()
        self._refused = ""
        self._session: Session | None = None
        self._open: list[tuple[int, FlopWatcher | None]] = []
        self._thread = -1
        self._first: int | None = None

    def begin(self, session: Session) -> None:
        """Count steps of `session`, on the thread that calls this."""
        self._session = session
        self._thread = threading.get_ident()
        first = session.options.warmup_steps or 0
        # Steps that a guard compares, or a profiler traces, are left as they are.
        options = session.options
        ranges = [one for one in (options.keep_steps, options.profile_steps) if one is not None]
        wanted = (first + step for step in self._wanted)
        self._wanted = [
            step for step in wanted if not any(low <= step <= high for low, high in ranges)
        ]
        self._first = self._wanted[0] if self._wanted else None
        session.undo.callback(self._stop)

    @outside_graphs
    def enter(self, account: int) -> None:
        """The outermost call of a forward or a backward begins."""
        session = self._session
        if session is None or not self._wanted or session.steps + 1 < self._wanted[0]:
            # Given up inside a call that was watched: each call that ends takes its own entry away.
            if self._open:
                self._open.append((account, None))
            return
        with session.faults.guard("the operations of this step"):
            self._enter(session, account)

    @outside_graphs
    def _enter(self, session: Session, account: int) -> None:
        step = session.steps + 1
        while self._wanted and self._wanted[0] < step:
            self._wanted.pop(0)
        if not self._wanted or self._wanted[0] != step or threading.get_ident() != self._thread:
            return
        tally = self._tally_of(session, step, account)
        if tally is None:
            self._open.append((account, None))
            return
        watcher = self._open[-1][1] if self._open else None
        if watcher is not None:
            # A backward inside a training step; inside a backward it is part of that.
            if self._open[-1][0] != account:
                self._take(watcher, tally, self._open[-1][0])
            self._open.append((account, watcher))
            return
        watcher = FlopWatcher()
        # In this order: a signal's exception in between leaves nothing behind that `leave` does not see.
        self._open.append((account, watcher))
        watcher.put_on()

    @outside_graphs
    def _tally_of(self, session: Session, step: int, account: int) -> StepTally | None:
        """Give the tally of the step that is open; None if this call is not to be counted."""
        capture, known = session.capture, self._tallies.get(step)
        if account == FORWARD and not torch.is_grad_enabled():
            return None
        if known is not None and known.capture is capture:
            return known
        self._tallies.pop(step, None)  # of a step of this number that was dropped
        journal = session.journal
        if not (journal.holds(INPUT_WAIT) or journal.holds(OPEN)):
            return None  # between steps
        self._refused = reason_against(session.setup)
        if self._refused:
            self._wanted.clear()
            return None
        self._take_all_off()  # what a signal's exception left of an earlier step
        self._tallies[step] = tally = StepTally(capture)
        capture.flags |= FLOPS_COUNTED
        return tally

    @outside_graphs
    def leave(self, account: int) -> None:
        """The call that was entered last has ended."""
        session = self._session
        if session is None or not self._open or self._open[-1][0] != account:
            return
        with session.faults.guard("the operations of this step"):
            watcher = self._open[-1][1]
            around, outer = self._open[-2] if len(self._open) > 1 else (-1, None)
            # Before it is forgotten: a signal's exception in between leaves it for whoever comes next.
            if watcher is not None and outer is not watcher:
                watcher.take_off()
            self._open.pop()
            if watcher is None:
                return
            tally = self._tallies.get(session.steps + 1)
            if tally is not None and (outer is not watcher or around != account):
                self._take(watcher, tally, account)

    @outside_graphs
    def _take(self, watcher: FlopWatcher, tally: StepTally, account: int) -> None:
        """Book what `watcher` noted since the last time; `account` is where it was."""
        notes, watcher.notes = watcher.notes, []
        self._unknown |= watcher.unknown
        if watcher.refused:
            self._refuse(watcher.refused)
        # What runs in backward with gradients on is done again for a block that kept nothing; if all of it
        # does, the backward itself is to be differentiated.
        again = account == BACKWARD and any(not with_grad for _, _, with_grad in notes)
        for name, flops, with_grad in notes:
            if again and with_grad:
                tally.recomputed += flops
            else:
                (tally.backward if account == BACKWARD else tally.forward)[name] += flops

    @outside_graphs
    def before_backward(self, tensors: object) -> None:
        """A backward from these tensors is about to begin, which is not watched as yet."""
        session = self._session
        if session is None or threading.get_ident() != self._thread:
            return
        if not self._open and session.steps + 1 not in self._wanted:
            return
        with session.faults.guard("the operations of this step"):
            # Inside a backward, autograd has put on again what was taken off inside an earlier node of it.
            reason = self._refused or reason_against_backward(tensors)
            if reason:
                self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        """Count nothing of this run, and let nothing more be watched."""
        self._refused = reason
        self._tallies.clear()
        self._wanted.clear()
        for _, watcher in self._open:
            if watcher is not None:
                watcher.take_off()

    def _stop(self) -> None:
        """The span ends: nothing is counted any more, and no mode of ours stays."""
        self._wanted.clear()
        self._take_all_off()

    def _take_all_off(self) -> None:
        while self._open:
            watcher = self._open[-1][1]
            if watcher is not None:
                watcher.take_off()
            self._open.pop()

    # -- what the drain asks ---------------------------------------------------------------------

    def facts(self, asked: bool) -> FlopFacts:
        """Give what was counted in steps that are complete, and why nothing was if so.

        Args:
            asked: The user wanted steps to be counted.
        """
        completed = 0 if self._session is None else self._session.steps
        done = [
            (step, tally)
            for step, tally in list(self._tallies.items())
            if step <= completed and tally.is_whole
        ]
        counted = [tally.counted(step) for step, tally in done]
        whole = tuple(one for one in counted if one.total > one.backward_flops)
        return FlopFacts(
            counted=whole,
            uncounted=tuple(sorted(self._unknown)),
            not_counted="" if whole or not asked else self._why_nothing(counted),
            tf32=any(uses_tf32()),  # settings alone: nothing of a device is touched
        )

    def _why_nothing(self, counted: Sequence[CountedStep]) -> str:
        if self._refused:
            return self._refused
        unseen = "" if self._session is None else self._session.unmeasured.get("forward", "")
        if unseen:
            return f"forward was not seen: {unseen}"
        if counted:
            return "no matrix work was seen in the forward calls of the counted steps"
        if self._first is None:
            return "all steps that could be counted are measured by a guard or traced by a profiler"
        return f"the run has no complete step with a number from {self._first} on"
