"""The ledger of one worker: its journal replayed into accounts and services. No clock, no thread, no file."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from traintrace.stagefacts import KEPT, STAGE_ACCOUNTS
from traintrace.stages import marks
from traintrace.stages.marks import GOT, GUESSED, MADE, OPERATIONS, PLACED, SAID

# done_ns, busy_ns, items, tokens or NOT_SAID, and how it was found: GUESSED, SAID or MADE.
ServiceRow = tuple[int, int, int, int, int]


class Balance(NamedTuple):
    """A worker's accounts as of `end_ns`, and its waits by number of the queue."""

    end_ns: int
    account_ns: dict[str, int]
    starved_ns: dict[int, int]
    blocked_ns: dict[int, int]


@dataclass(slots=True)
class WorkerLedger:
    """What one worker did so far; every nanosecond since `start_ns` is in exactly one account.

    Attributes:
        start_ns: Moment of the first entry; 0 before it. last_ns: moment of the latest one.
        account: What time is charged to now; waiting is charged when it has ended.
        is_open: Somebody holds the worker's place. tokens: None if none were said.
        counts: Which services do: SAID if it says `done`, GUESSED if it worked on an item that it took, else MADE.
        services: Those that were not taken yet, the latest ones.
        moments: When operations succeeded that were not taken yet, by what they were: the code of the entry.
    """

    start_ns: int = 0
    last_ns: int = 0
    account: str = "other"
    is_open: bool = False
    account_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGE_ACCOUNTS, 0))
    starved_ns: dict[int, int] = field(default_factory=dict)
    blocked_ns: dict[int, int] = field(default_factory=dict)
    items: int = 0
    tokens: int | None = None
    counts: int = MADE
    service_count: int = 0
    busy_sum_ns: int = 0
    busy_sum_squares_ns2: int = 0
    services: deque[ServiceRow] = field(default_factory=lambda: deque(maxlen=KEPT))
    moments: dict[int, list[int]] = field(default_factory=dict)
    _paused: list[str] = field(default_factory=list)
    # Of the item at work: time so far, whether it was taken, when it was asked for and put on.
    _work_ns: int = 0
    _has_item: bool = False
    _asked_ns: int = 0
    _output_ns: int = 0
    _is_partly_made: bool = (
        False  # FOUND in the middle of an item: its first output is no whole service
    )
    _is_partly_done: bool = False  # nor is its first `done`
    _operated: int = 0  # code of the latest operation
    # Time whose account what comes next tells: since START, since an operation failed, since the last output.
    _head_ns: int | None = None
    _failed: int | None = None  # the code of the entry
    _failed_ns: int = 0
    _tail_ns: int | None = None

    def replay(self, entries: Sequence[int]) -> None:
        """Take in whole entries, in the order in which they were written."""
        values = iter(entries)
        for begin, end, code in zip(values, values, values, strict=True):
            self._charge(begin)
            if code >= OPERATIONS:
                self._operate(begin, end, code)
            elif code == marks.DONE:
                self._done(*marks.items_and_tokens(end))
            elif code in (marks.START, marks.FOUND):
                self._start(found=code == marks.FOUND)
            elif code == marks.END:
                self._end()
            elif code == marks.PAUSE:
                self._paused.append(self.account)
                self.account = "other"
            elif code == marks.RESUME and self._paused:
                self.account = self._paused.pop()

    def balance(self, moment: int, waits_since: int = 0, code: int = 0) -> Balance:
        """Give the accounts as they would be if the worker did at `moment` what it is at.

        Args:
            moment: Until when; an older one than the latest entry changes nothing.
            waits_since: When the operation began that it is in; before the latest entry if it is in none.
            code: The code of its queue, with any outcome of the operation.
        """
        balance = Balance(
            self.last_ns, dict(self.account_ns), dict(self.starved_ns), dict(self.blocked_ns)
        )
        if not self.is_open or moment <= self.last_ns:
            return balance
        waits = self.last_ns < waits_since < moment
        worked_until = waits_since if waits else moment
        balance.account_ns[self.account] += worked_until - self.last_ns
        if waits:
            account, by_queue = "starved", balance.starved_ns
            if code % OPERATIONS >= PLACED:
                account, by_queue = "blocked", balance.blocked_ns
            balance.account_ns[account] += moment - worked_until
            queue = code // OPERATIONS - 1
            by_queue[queue] = by_queue.get(queue, 0) + moment - worked_until
        return balance._replace(end_ns=moment)

    def _charge(self, moment: int) -> None:
        ns = moment - self.last_ns
        # Another thread may have held the place before: its clock can be ahead by a little.
        if ns <= 0 or not self.start_ns:
            if not self.start_ns:
                self.start_ns = self.last_ns = moment
            return
        self.last_ns = moment
        self.account_ns[self.account] += ns
        if self.account == "busy":
            self._work_ns += ns
            if self._failed is not None:
                self._failed_ns += ns
            if self._tail_ns is not None:
                self._tail_ns += ns
        elif self._head_ns is not None and not self._paused:
            self._head_ns += ns

    # -- what entries mean -----------------------------------------------------------------------

    def _start(self, *, found: bool) -> None:
        self.account, self.is_open = "other", True
        self._is_partly_made = self._is_partly_done = found
        # What one was at who is found is not known: no first output makes work of it.
        self._head_ns, self._tail_ns, self._failed = None if found else 0, None, None
        self._has_item, self._output_ns, self._work_ns = False, 0, 0
        self._paused.clear()

    def _end(self) -> None:
        self._settle_failed("other")
        if self._tail_ns:
            self._move(self._tail_ns, "busy", "other")
            self._work_ns -= self._tail_ns
        if self._has_item and self._output_ns and self.counts != SAID:
            self._close(self._output_ns, 1, marks.NOT_SAID)
        self._head_ns = self._tail_ns = None
        self.account, self.is_open = "other", False

    def _operate(self, begin: int, end: int, code: int) -> None:
        outcome, queue = code % OPERATIONS, code // OPERATIONS - 1
        is_put = outcome >= PLACED
        # A class of the user's whose `get` calls itself: the call inside was counted.
        is_around = begin < self.last_ns and code == self._operated
        self._operated = code
        if self._head_ns is not None:
            self._leave_head(works=is_put)
        if self._failed is not None:
            # Tried again: it was waiting. Otherwise it had something to do.
            again = (self._failed % OPERATIONS >= PLACED) == is_put
            self._settle_failed(("blocked" if is_put else "starved") if again else "busy")
        if end > self.last_ns:
            ns = end - self.last_ns
            self.last_ns = end
            by_queue = self.blocked_ns if is_put else self.starved_ns
            self.account_ns["blocked" if is_put else "starved"] += ns
            by_queue[queue] = by_queue.get(queue, 0) + ns
        self.account = "busy"
        if is_around:
            return
        if outcome == GOT:
            if self._has_item and self.counts != SAID:
                self._count(GUESSED)
                self._close(self._output_ns or self._asked_ns or begin, 1, marks.NOT_SAID)
            self._has_item, self._is_partly_made = True, False
            self._output_ns, self._asked_ns, self._tail_ns = 0, 0, None
        elif outcome == PLACED:
            if self._has_item:
                self._count(GUESSED)
            elif self._is_partly_made:
                self._is_partly_made, self._work_ns = False, 0
            elif self.counts == MADE:
                self._close(end, 1, marks.NOT_SAID)
            self._output_ns, self._tail_ns = end, 0
        else:
            if outcome in (marks.GET_FAILED, marks.PUT_FAILED):
                self._failed, self._failed_ns = code, 0
            if not is_put:
                self._asked_ns = self._asked_ns or begin
            return
        try:
            self.moments[code].append(end)
        except KeyError:
            self.moments[code] = [end]

    def _leave_head(self, works: bool) -> None:
        if works and self._head_ns:
            self._move(self._head_ns, "other", "busy")
            self._work_ns += self._head_ns
        self._head_ns = None

    def _settle_failed(self, account: str) -> None:
        code, ns = self._failed, self._failed_ns
        self._failed, self._failed_ns = None, 0
        if code is None or account == "busy":
            return
        self._move(ns, "busy", account)
        self._work_ns -= ns
        if self._tail_ns is not None:
            self._tail_ns -= ns
        queue = code // OPERATIONS - 1
        if account != "other":
            by_queue = self.blocked_ns if account == "blocked" else self.starved_ns
            by_queue[queue] = by_queue.get(queue, 0) + ns

    def _move(self, ns: int, account: str, to: str) -> None:
        self.account_ns[account] -= ns
        self.account_ns[to] += ns

    # -- items -----------------------------------------------------------------------------------

    def _done(self, items: int, tokens: int) -> None:
        self._leave_head(works=True)
        self._settle_failed("busy")
        self._work_ns += self.busy_sum_ns if self.counts != SAID else 0
        self._count(SAID)
        if not self._paused:
            self.account = "busy"
        self._has_item, self._tail_ns = False, 0
        if not self._is_partly_done:
            self._close(self.last_ns, items, tokens)
        self._is_partly_done, self._work_ns = False, 0

    def _count(self, kind: int) -> None:
        if self.counts not in (SAID, kind):
            self.counts = kind
            self.items = self.service_count = self.busy_sum_ns = self.busy_sum_squares_ns2 = 0
            self.services.clear()

    def _close(self, done_ns: int, items: int, tokens: int) -> None:
        busy_ns, self._work_ns = self._work_ns, 0
        self.items += items
        if tokens != marks.NOT_SAID:
            self.tokens = (self.tokens or 0) + tokens
        self.service_count += 1
        self.busy_sum_ns += busy_ns
        self.busy_sum_squares_ns2 += busy_ns * busy_ns
        self.services.append((done_ns, busy_ns, items, tokens, self.counts))
