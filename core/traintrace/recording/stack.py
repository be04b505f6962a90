"""The stack of open accounts: what the time that passes is charged to.

It knows nesting, sealed accounts, entries that were never left, and regions. What a step is, and what
the sums are, is the ledger's.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from traintrace.accounts import (
    ADMITS,
    BACKWARD,
    BATCH_PREP,
    CHECKPOINT,
    CLIP,
    COMMUNICATION,
    COUNT,
    EVALUATION,
    FORWARD,
    GRADIENT_SYNC,
    H2D,
    INPUT_WAIT,
    NAMES,
    OPTIMIZER,
    OTHER,
    PREDICTION,
    RESUME_SKIP,
    STARTUP,
    STEP_ACCOUNTS,
    TUNING,
    USER,
)
from traintrace.recording.journal import REGION
from traintrace.recording.occurrences import Occurrence, OccurrenceQueue

# Accounts that mean nothing outside a step: between steps their time stays where it is.
_NEEDS_STEP: Final = frozenset(
    (H2D, BATCH_PREP, FORWARD, BACKWARD, GRADIENT_SYNC, OPTIMIZER, OTHER)
)
# Entries that cannot outlive their step: a leave that never came, or an explicit mark.
_ENDS_WITH_STEP: Final = frozenset((INPUT_WAIT, CLIP, COMMUNICATION, *_NEEDS_STEP))
_ENDS_PREPARATION: Final = frozenset((FORWARD, BACKWARD, OPTIMIZER))
_RELABELLED: Final = frozenset((RESUME_SKIP, *STEP_ACCOUNTS))
# Each of these that opens and closes is told as an event of its own.
_TOLD: Final = frozenset((EVALUATION, PREDICTION, CHECKPOINT, TUNING))

# Time of an optimizer step after something else has run inside it. If that was a closure, the step
# goes on and its leave will come; if not, it raised, the loop has gone on, and no leave ever comes.
# Until it is known which, the time waits here.
SUSPENSE: Final = COUNT
_ADMITS: Final = (*ADMITS, None)


@dataclass(slots=True)
class Entry:
    """One open account.

    Attributes:
        code: What its leave will name: an account, or a region's enter code.
        account: Where its time goes; the enclosing account if that is sealed.
        before: Amount of `account` when the entry was made, so that a fetch can be retracted.
        is_mark: Made by a mark that nobody leaves: it ends at the next one, or with its step.
    """

    code: int
    account: int
    before: int = 0
    is_mark: bool = False


class AccountStack(ABC):
    """The open accounts of one thread, and the amounts of the row that is being booked.

    Attributes:
        occurrences: Evaluations, predictions, checkpoints and tunings that have ended.
    """

    def __init__(self, start_ns: int) -> None:
        self._last = start_ns
        self._stack = [Entry(STARTUP, STARTUP)]
        self._region_stack: list[int] = []
        self._is_open = False
        self._inside, self._between, self._calls = [0] * (COUNT + 1), [0] * COUNT, [0] * COUNT
        self._amounts = self._between
        self._regions: dict[int, tuple[int, int]] = {}
        self._unbalanced = 0
        self._suspended: Entry | None = None  # the optimizer step whose time is in suspense
        self._calls_in_suspense = 0
        self._next_step = 1
        self._happening: list[tuple[int, int, int, int]] = []  # depth, account, start, step
        self.occurrences = OccurrenceQueue()

    def _charge(self, moment: int) -> None:
        elapsed = moment - self._last
        if elapsed < 0:  # a monotonic clock never does this; a foreign writer might
            self._unbalanced += 1
            return
        self._amounts[self._stack[-1].account] += elapsed
        if self._region_stack:
            region = self._region_stack[-1]
            ns, calls = self._regions.get(region, (0, 0))
            self._regions[region] = (ns + elapsed, calls)
        self._last = moment

    # -- opening ---------------------------------------------------------------------------------

    def _enter(self, account: int) -> None:
        self._push(Entry(account, self._admitted(account)))

    def _push(self, entry: Entry) -> None:
        account = entry.account
        if account == INPUT_WAIT and not self._is_open:
            self._open_step(entry)
        if account in _ENDS_PREPARATION and self._stack[0].account == BATCH_PREP:
            self._stack[0].account = OTHER
        top = self._stack[-1]
        if top.account >= SUSPENSE or (top.account == OPTIMIZER and self._may_be_over(top)):
            self._suspend(top, account)
        if account != top.account:
            self._calls[account] += 1
        if account > STARTUP and account == entry.code and account in _TOLD:
            self._begin_occurrence(account)
        entry.before = self._amounts[account]
        self._stack.append(entry)

    @abstractmethod
    def _open_step(self, entry: Entry | None) -> None:
        """Open a step at this instant, by the batch request `entry` or without one."""

    def _admitted(self, account: int) -> int:
        """Give the account that an entry of `account` is charged to where the stack stands now."""
        innermost = self._stack[-1].account
        admits = _ADMITS[innermost] if len(self._stack) > 1 else None
        if admits is not None and account not in admits:
            return innermost
        if account in _NEEDS_STEP and not self._is_open:
            return innermost
        return account

    def _enter_region(self, code: int) -> None:
        number = (code - REGION) // 2
        ns, calls = self._regions.get(number, (0, 0))
        self._regions[number] = (ns, calls + 1)
        self._push(Entry(code, self._admitted(USER)))
        self._region_stack.append(number)

    def _switch(self, account: int) -> None:
        if len(self._stack) > 1 and self._stack[-1].code in _RELABELLED:
            if self._stack[-1] is self._suspended:
                self._give_up_suspended()
            self._stack.pop()
        self._push(Entry(account, self._admitted(account), is_mark=True))

    def _set_base(self, account: int) -> None:
        self._stack[0] = Entry(account, account)

    # -- closing ---------------------------------------------------------------------------------

    def _leave(self, code: int) -> None:
        stack = self._stack
        for depth in range(len(stack) - 1, 0, -1):
            if stack[depth].code == code:
                if stack[depth] is self._suspended:
                    self._resume_suspended()
                self._unwind(depth)
                return
        self._unbalanced += 1

    def _unwind(self, depth: int) -> None:
        """Close the entry at `depth` and all that is still open above it, at this instant."""
        if self._happening:
            self._end_occurrences(depth)
        for entry in self._stack[depth + 1 :]:
            self._unbalanced += 1
            self._forget_region(entry)
        self._forget_region(self._stack[depth])
        del self._stack[depth:]

    def _forget_region(self, entry: Entry) -> None:
        if entry.code >= REGION and self._region_stack:
            self._region_stack.pop()

    def _close_leftovers(self) -> None:
        if self._suspended is not None:
            self._give_up_suspended()
        for depth in range(1, len(self._stack)):
            if self._stack[depth].code in _ENDS_WITH_STEP:
                self._unwind(depth)
                return

    # -- an optimizer step that raised -----------------------------------------------------------

    def _may_be_over(self, entry: Entry) -> bool:
        """Say whether something that opens inside an optimizer step may show that it has raised."""
        # Deeper ones are closed by what encloses them, and a mark is over when the next one comes.
        return len(self._stack) == 2 and entry.code == OPTIMIZER and not entry.is_mark

    def _suspend(self, optimizer: Entry, opening: int) -> None:
        self._suspended = optimizer
        optimizer.account = SUSPENSE
        # An attempt inside an attempt is no call of its own; one after an attempt that raised is.
        self._calls_in_suspense += opening == OPTIMIZER

    def _resume_suspended(self) -> None:
        """Its leave has come: all that ran inside was a closure, and the rest is the optimizer's."""
        self._calls[OPTIMIZER] -= self._calls_in_suspense
        self._take_from_suspense(OPTIMIZER)

    def _give_up_suspended(self) -> None:
        """No leave has come: the step raised before the first thing that opened inside it."""
        self._unbalanced += 1
        self._take_from_suspense(self._stack[0].account)

    def _take_from_suspense(self, account: int) -> None:
        self._inside[account] += self._inside[SUSPENSE]
        self._inside[SUSPENSE] = self._calls_in_suspense = 0
        self._suspended = None

    # -- occurrences -----------------------------------------------------------------------------

    def _begin_occurrence(self, account: int) -> None:
        if all(account != other for _, other, _, _ in self._happening):
            self._happening.append((len(self._stack), account, self._last, self._next_step))

    def _end_occurrences(self, depth: int) -> None:
        while self._happening and self._happening[-1][0] >= depth:
            _, account, start, step = self._happening.pop()
            self.occurrences.add(Occurrence(NAMES[account], start, self._last - start, step=step))
