"""The ledger: replay a journal with a stack of accounts, and book every nanosecond exactly once.

Runs on the drain thread and knows no clock of its own: the same entries always give the same books.
From the replay follow, whatever the entries are:

* the accounts of a row sum to its length, and rows tile the time line;
* accounts are disjoint: an account's time is what passes while it is innermost;
* nesting, missing leaves and retracted steps are settled here, not inside training.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from traintrace.accounts import (
    ABORTED,
    ADMITS,
    BACKWARD,
    BATCH_PREP,
    CLIP,
    COMMUNICATION,
    COUNT,
    EPOCH_BOUNDARY,
    FORWARD,
    GAP,
    GRADIENT_SYNC,
    H2D,
    INPUT_WAIT,
    OPTIMIZER,
    OTHER,
    RESUME_SKIP,
    SHUTDOWN,
    STARTUP,
    STEP_ACCOUNTS,
    USER,
)
from traintrace.journal import (
    ABORT,
    BASE,
    EXHAUSTED,
    OPEN,
    OWN_WORK_DONE,
    REGION,
    RETRACT,
    SWITCH,
    Segment,
)
from traintrace.steps import StepCapture

# Accounts that mean nothing outside a step: between steps their time stays where it is.
_NEEDS_STEP: Final = frozenset(
    (H2D, BATCH_PREP, FORWARD, BACKWARD, GRADIENT_SYNC, OPTIMIZER, OTHER)
)
# Entries that cannot outlive their step: a leave that never came, or an explicit mark.
_ENDS_WITH_STEP: Final = frozenset((INPUT_WAIT, CLIP, COMMUNICATION, *_NEEDS_STEP))
_ENDS_PREPARATION: Final = frozenset((FORWARD, BACKWARD, OPTIMIZER))
_RELABELLED: Final = frozenset((RESUME_SKIP, *STEP_ACCOUNTS))


@dataclass(slots=True)
class _Entry:
    """One open account.

    Attributes:
        code: What its leave will name: an account, or a region's enter code.
        account: Where its time goes; the enclosing account if that is sealed.
        before: Amount of `account` when the entry was made, so that a fetch can be retracted.
    """

    code: int
    account: int
    before: int = 0


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The books of one completed step, from the step before's close to its own.

    Attributes:
        inside: Nanoseconds per account between the step's open and its close.
        between: Nanoseconds per account before the open.
        calls: Outermost calls per account in the row.
        regions: Nanoseconds and calls per region number.
        capture: The facts that came with the step.
    """

    start_ns: int
    open_ns: int
    end_ns: int
    inside: tuple[int, ...]
    between: tuple[int, ...]
    calls: tuple[int, ...]
    regions: dict[int, tuple[int, int]]
    capture: StepCapture


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """Sums over all rows and the tail, as of one instant; `total_ns` sums to `end_ns - start_ns`."""

    start_ns: int
    end_ns: int
    total_ns: tuple[int, ...]
    inside_ns: tuple[int, ...]
    calls: tuple[int, ...]
    steps: int
    steps_aborted: int
    transitions: int
    unbalanced: int


class Ledger:
    """The books of one thread, advanced one segment at a time and in order."""

    def __init__(self, start_ns: int) -> None:
        self._stack = [_Entry(STARTUP, STARTUP)]
        self._region_stack: list[int] = []
        self.begin(start_ns)
        self._is_open = False
        self._base_before_open = STARTUP
        self._opened_by: _Entry | None = None
        self._inside, self._between, self._calls = [0] * COUNT, [0] * COUNT, [0] * COUNT
        self._amounts = self._between
        self._regions: dict[int, tuple[int, int]] = {}
        self._total, self._total_inside, self._total_calls = [0] * COUNT, [0] * COUNT, [0] * COUNT
        self._steps = self._steps_aborted = self._transitions = self._unbalanced = 0

    def begin(self, start_ns: int) -> None:
        """Let the span start at this instant instead; only before anything is booked."""
        self._last = self._start = self._row_start = self._open = self._settled = start_ns

    @property
    def moment(self) -> int:
        """Give the instant up to which the books are kept [ns]."""
        return self._last

    @property
    def steps(self) -> int:
        """Give the number of completed steps so far."""
        return self._steps

    def replay(self, segment: Segment) -> LedgerRow | None:
        """Book one segment; give the row if it completes a step."""
        self._book(segment.entries)
        self._charge(segment.end_ns)
        return None if segment.capture is None else self._close_row(segment.capture)

    def snapshot(self) -> "Ledger":
        """Copy the state that a replay starts from; for reading the same entries on another clock."""
        twin = Ledger(self._last)
        twin._stack = [replace(entry, before=0) for entry in self._stack]
        twin._is_open = self._is_open
        twin._base_before_open = self._base_before_open
        if self._is_open:
            twin._amounts = twin._inside
        return twin

    def settle(self) -> None:
        """Take all that is booked since the last row into the totals, and start the next row here."""
        for account in range(COUNT):
            self._total[account] += self._inside[account] + self._between[account]
            self._total_inside[account] += self._inside[account]
            self._total_calls[account] += self._calls[account]
        self._inside, self._between, self._calls = [0] * COUNT, [0] * COUNT, [0] * COUNT
        self._amounts = self._inside if self._is_open else self._between
        self._regions = {}
        self._row_start = self._settled = self._last

    def close(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """End the span here; give what lies after the last row: inside, between, calls per account.

        Time in no account after the last step is shutdown, not a gap: no batch was requested any more.
        """
        if self._steps:
            self._between[SHUTDOWN] += self._between[GAP]
            self._between[GAP] = 0
        tail = tuple(self._inside), tuple(self._between), tuple(self._calls)
        self.settle()
        return tail

    def totals(self) -> LedgerTotals:
        """Give the sums as of the last row (and of `settle`)."""
        return LedgerTotals(
            self._start,
            self._settled,
            tuple(self._total),
            tuple(self._total_inside),
            tuple(self._total_calls),
            self._steps,
            self._steps_aborted,
            self._transitions,
            self._unbalanced,
        )

    # -- booking ---------------------------------------------------------------------------------

    def _book(self, entries: Sequence[int]) -> None:
        self._transitions += len(entries) // 2
        charge = self._charge
        for index in range(0, len(entries) - 1, 2):
            charge(entries[index])
            code = entries[index + 1]
            if 0 <= code < COUNT:
                self._enter(code)
            elif -COUNT <= code < 0:
                self._leave(~code)
            elif code >= REGION:
                self._leave(code - 1) if code % 2 else self._enter_region(code)
            elif SWITCH <= code < SWITCH + COUNT:
                self._switch(code - SWITCH)
            elif BASE <= code < BASE + COUNT:
                self._set_base(code - BASE)
            elif code == OPEN:
                self._open_step(None)
            elif code == ABORT:
                self._abort()
            elif code == EXHAUSTED:
                self._retract_fetch()
            elif code == OWN_WORK_DONE:
                self._own_work_done()
            elif code == RETRACT:
                self._retract_step()
            else:
                self._unbalanced += 1

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

    def _enter(self, account: int) -> None:
        self._push(_Entry(account, self._admitted(account)))

    def _push(self, entry: _Entry) -> None:
        opens = entry.account == INPUT_WAIT and not self._is_open
        if opens:
            self._open_step(entry)
        if entry.account in _ENDS_PREPARATION and self._stack[0].account == BATCH_PREP:
            self._stack[0].account = OTHER
        if entry.account != self._stack[-1].account:
            self._calls[entry.account] += 1
        entry.before = self._amounts[entry.account]
        self._stack.append(entry)

    def _admitted(self, account: int) -> int:
        """Give the account that an entry of `account` is charged to where the stack stands now."""
        innermost = self._stack[-1].account
        admits = ADMITS[innermost] if len(self._stack) > 1 else None
        if admits is not None and account not in admits:
            return innermost
        if account in _NEEDS_STEP and not self._is_open:
            return innermost
        return account

    def _leave(self, code: int) -> None:
        stack = self._stack
        for depth in range(len(stack) - 1, 0, -1):
            if stack[depth].code == code:
                self._unwind(depth)
                return
        self._unbalanced += 1

    def _unwind(self, depth: int) -> None:
        """Close the entry at `depth` and all that is still open above it, at this instant."""
        for entry in self._stack[depth + 1 :]:
            self._unbalanced += 1
            self._forget_region(entry)
        self._forget_region(self._stack[depth])
        del self._stack[depth:]

    def _forget_region(self, entry: _Entry) -> None:
        if entry.code >= REGION and self._region_stack:
            self._region_stack.pop()

    def _enter_region(self, code: int) -> None:
        number = (code - REGION) // 2
        ns, calls = self._regions.get(number, (0, 0))
        self._regions[number] = (ns, calls + 1)
        self._push(_Entry(code, self._admitted(USER)))
        self._region_stack.append(number)

    def _switch(self, account: int) -> None:
        if len(self._stack) > 1 and self._stack[-1].code in _RELABELLED:
            self._stack.pop()
        self._enter(account)

    def _set_base(self, account: int) -> None:
        self._stack[0] = _Entry(account, account)

    # -- steps -----------------------------------------------------------------------------------

    def _open_step(self, entry: _Entry | None) -> None:
        if self._is_open:
            return
        self._is_open, self._open, self._amounts = True, self._last, self._inside
        self._base_before_open = self._stack[0].account
        self._opened_by = entry
        self._set_base(BATCH_PREP)

    def _own_work_done(self) -> None:
        top = self._stack[-1]
        if top.account == BACKWARD:
            top.account = GRADIENT_SYNC
            self._calls[GRADIENT_SYNC] += 1

    def _retract_fetch(self) -> None:
        """The innermost fetch brought no batch: it belongs to the epoch's end, not to a step."""
        entry = self._stack[-1]
        if entry.account != INPUT_WAIT:
            self._unbalanced += 1
            return
        waited = self._amounts[INPUT_WAIT] - entry.before
        self._amounts[INPUT_WAIT] -= waited
        self._amounts[EPOCH_BOUNDARY] += waited
        self._calls[INPUT_WAIT] -= 1
        self._calls[EPOCH_BOUNDARY] += 1
        entry.account = EPOCH_BOUNDARY
        if self._opened_by is entry:
            for account in range(COUNT):
                self._between[account] += self._inside[account]
            self._leave_step(self._base_before_open)

    def _retract_step(self) -> None:
        """The request that opened the step brought no batch: its time belongs to the epoch's end."""
        if not self._is_open or len(self._stack) > 1:
            self._unbalanced += 1
            return
        self._between[EPOCH_BOUNDARY] += sum(self._inside)
        self._calls[EPOCH_BOUNDARY] += 1
        for account in STEP_ACCOUNTS:
            self._calls[account] = 0
        self._leave_step(self._base_before_open)

    def _abort(self) -> None:
        """Drop the open step: its time stays on the time line, in one account."""
        self._close_leftovers()
        if not self._is_open:
            return
        self._between[ABORTED] += sum(self._inside)
        self._calls[ABORTED] += 1
        for account in STEP_ACCOUNTS:
            self._calls[account] = 0
        self._steps_aborted += 1
        self._leave_step(GAP)

    def _leave_step(self, base: int) -> None:
        self._inside = [0] * COUNT
        self._is_open, self._amounts, self._opened_by = False, self._between, None
        self._set_base(base)

    def _close_leftovers(self) -> None:
        for depth in range(1, len(self._stack)):
            if self._stack[depth].code in _ENDS_WITH_STEP:
                self._unwind(depth)
                return

    def _close_row(self, capture: StepCapture) -> LedgerRow:
        self._close_leftovers()
        row = LedgerRow(
            self._row_start,
            self._open if self._is_open else self._last,
            self._last,
            tuple(self._inside),
            tuple(self._between),
            tuple(self._calls),
            self._regions,
            capture,
        )
        self._steps += 1
        self.settle()
        self._leave_step(GAP)
        return row
