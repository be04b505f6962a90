"""The ledger: replay a journal with a stack of accounts, and book every nanosecond exactly once.

Runs on the drain thread and knows no clock of its own: the same entries always give the same books.
From the replay follow, whatever the entries are:

* the accounts of a row sum to its length, and rows tile the time line;
* accounts are disjoint: an account's time is what passes while it is innermost;
* nesting, missing leaves, retracted and abandoned steps are settled here, not inside training.
"""

from collections.abc import Sequence
from dataclasses import replace

from traintrace.accounts import (
    ABORTED,
    BACKWARD,
    BATCH_PREP,
    COUNT,
    EPOCH_BOUNDARY,
    GAP,
    GRADIENT_SYNC,
    INPUT_WAIT,
    SHUTDOWN,
    STARTUP,
    STEP_ACCOUNTS,
)
from traintrace.recording.books import LedgerRow, LedgerTotals
from traintrace.recording.journal import (
    ABANDON,
    ABORT,
    BASE,
    EXHAUSTED,
    OPEN,
    OWN_WORK_DONE,
    REGION,
    RETRACT,
    SWITCH,
    UNUSED,
    Segment,
)
from traintrace.recording.stack import AccountStack, Entry
from traintrace.recording.steps import StepCapture


class Ledger(AccountStack):
    """The books of one thread, advanced one segment at a time and in order."""

    def __init__(self, start_ns: int) -> None:
        super().__init__(start_ns)
        self.begin(start_ns)
        self._base_before_open = STARTUP
        self._opened_by: Entry | None = None
        self._total, self._total_inside, self._total_calls = [0] * COUNT, [0] * COUNT, [0] * COUNT
        self._steps_aborted = self._steps_abandoned = self._transitions = 0

    def begin(self, start_ns: int) -> None:
        """Let the span start at this instant instead; only before anything is booked."""
        self._last = self._start = self._row_start = self._open = self._settled = start_ns

    @property
    def moment(self) -> int:
        """Give the instant up to which the books are kept [ns]."""
        return self._last

    @property
    def last_step(self) -> int:
        """Give the number of the step that was completed last, abandoned ones included; 0 before."""
        return self._next_step - 1

    @property
    def steps_abandoned(self) -> int:
        """Give how many of the completed steps count no more: all up to this number."""
        return self._steps_abandoned

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
        self._inside, self._between, self._calls = [0] * (COUNT + 1), [0] * COUNT, [0] * COUNT
        self._amounts = self._inside if self._is_open else self._between
        self._regions = {}
        self._row_start = self._settled = self._last

    def close(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """End the span here; give what lies after the last row: inside, between, calls per account.

        Time in no account after the last step is shutdown, not a gap: no batch was requested any more.
        """
        self._end_occurrences(0)
        if self._suspended is not None:
            self._give_up_suspended()
        if self.last_step:
            self._between[SHUTDOWN] += self._between[GAP]
            self._between[GAP] = 0
        tail = tuple(self._inside[:COUNT]), tuple(self._between), tuple(self._calls)
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
            self.last_step - self._steps_abandoned,
            self._steps_aborted,
            self._steps_abandoned,
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
            elif code == ABANDON:
                self._abandon_steps()
            elif code == UNUSED:
                self._drop_unused()
            else:
                self._unbalanced += 1

    # -- steps -----------------------------------------------------------------------------------

    def _open_step(self, entry: Entry | None) -> None:
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
        inside_another = len(self._stack) > 1 and self._stack[-2].account == INPUT_WAIT
        waited = self._amounts[INPUT_WAIT] - entry.before
        self._amounts[INPUT_WAIT] -= waited
        self._amounts[EPOCH_BOUNDARY] += waited
        self._calls[INPUT_WAIT] -= 0 if inside_another else 1
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

    def _drop_unused(self) -> None:
        """Nothing was trained on the batches of the open step: its time is what it was before."""
        self._close_leftovers()
        if not self._is_open:
            return
        base = self._base_before_open
        for account in range(COUNT):
            place = base if account in STEP_ACCOUNTS else account
            self._between[place] += self._inside[account]
        for account in STEP_ACCOUNTS:
            self._calls[account] = 0
        self._leave_step(base)

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

    def _abandon_steps(self) -> None:
        """Drop an open step and all that were completed so far: their time becomes `aborted`.

        Time between those steps stays where it is.
        """
        self._abort()
        count = self.last_step - self._steps_abandoned
        self._total[ABORTED] += sum(self._total_inside)
        for account in range(COUNT):
            self._total[account] -= self._total_inside[account]
        for account in STEP_ACCOUNTS:
            self._total_calls[account] = 0
        self._total_inside = [0] * COUNT
        self._total_calls[ABORTED] += count
        self._steps_aborted += count
        self._steps_abandoned = self.last_step

    def _leave_step(self, base: int) -> None:
        self._inside = [0] * (COUNT + 1)
        self._is_open, self._amounts, self._opened_by = False, self._between, None
        self._set_base(base)

    def _close_row(self, capture: StepCapture) -> LedgerRow:
        self._close_leftovers()
        row = LedgerRow(
            self._row_start,
            self._open if self._is_open else self._last,
            self._last,
            tuple(self._inside[:COUNT]),
            tuple(self._between),
            tuple(self._calls),
            self._regions,
            capture,
        )
        self._next_step += 1
        self.settle()
        self._leave_step(GAP)
        return row
