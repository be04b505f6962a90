"""The journal on the training thread: what it publishes, and who may write."""

import threading
from threading import get_ident

from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace import accounts as A
from traintrace.accounts import FORWARD, INPUT_WAIT
from traintrace.recording.journal import ABORT, PART_ENTRIES, Journal, Segment
from traintrace.recording.ledger import Ledger
from traintrace.recording.steps import StepCapture
from traintrace.testing import FakeClock


def make() -> tuple[Journal, list[Segment], FakeClock]:
    clock = FakeClock()
    published: list[Segment] = []
    return Journal(get_ident(), published.append, clock), published, clock


def test_a_cut_publishes_what_was_written_and_the_next_segment_starts_empty() -> None:
    journal, published, clock = make()
    mark = journal.marker(FORWARD)
    mark()
    clock.advance(5)
    journal.write(~FORWARD)
    clock.advance(2)
    journal.cut(None)
    journal.cut(None)
    start = clock.moment - 7
    assert published[0].entries == (start, FORWARD, start + 5, ~FORWARD)
    assert published[0].end_ns == start + 7
    assert published[1].entries == ()


def test_markers_keep_working_after_a_cut() -> None:
    journal, published, _ = make()
    mark = journal.marker(FORWARD)
    journal.cut(None)
    mark()
    journal.cut(None)
    assert published[1].entries[1] == FORWARD


@given(st.integers(PART_ENTRIES // 2 - 2, PART_ENTRIES + 10))
def test_the_journal_stays_bounded_however_often_a_call_repeats(calls: int) -> None:
    journal, published, _ = make()
    enter, leave = journal.marker(INPUT_WAIT), journal.marker(~INPUT_WAIT)
    for _ in range(calls):
        enter()
        leave()
    journal.cut(None)
    assert max(len(segment.entries) for segment in published) <= PART_ENTRIES + 4
    assert sum(len(segment.entries) for segment in published) == 4 * calls


def test_what_only_its_end_shows_is_written_from_its_beginning() -> None:
    journal, published, clock = make()
    journal.write(INPUT_WAIT)
    clock.advance(3)
    began = clock.moment
    clock.advance(4)
    journal.write_since(began, A.EPOCH_BOUNDARY)
    journal.write(~INPUT_WAIT)
    journal.cut(None)
    ledger = Ledger(published[0].entries[0])
    ledger.replay(published[0])
    inside, _, calls = ledger.close()
    assert (inside[INPUT_WAIT], inside[A.EPOCH_BOUNDARY]) == (3, 4)
    assert (calls[INPUT_WAIT], calls[A.EPOCH_BOUNDARY]) == (1, 1)
    assert ledger.totals().unbalanced == 0


def test_nothing_is_written_before_what_is_written_already() -> None:
    journal, published, clock = make()
    began = clock.moment
    clock.advance(3)
    journal.write(FORWARD)
    clock.advance(4)
    journal.write_since(began, A.EPOCH_BOUNDARY)
    journal.cut(None)
    assert published[0].entries == (began + 3, FORWARD)


def test_another_thread_is_foreign_and_counted() -> None:
    journal, _, _ = make()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(journal.is_foreign(get_ident())))
    thread.start()
    thread.join()
    assert answers == [True]
    assert journal.foreign_calls == 1
    assert not journal.is_foreign(get_ident())


def test_after_the_end_nobody_may_write() -> None:
    journal, _, _ = make()
    journal.disown()
    assert journal.is_foreign(get_ident())


OWNER, OTHER = 1, 2
actions = st.lists(
    st.tuples(
        st.integers(0, 30),  # nanoseconds that pass before it
        st.sampled_from(["enter", "leave", "call", "raise", "close", "abort", "part"]),
        st.integers(0, A.COUNT - 1),
        st.sampled_from([OWNER, OWNER, OTHER]),  # the thread that does it
    ),
    max_size=60,
)


def play(script: list[tuple[int, str, int, int]], with_others: bool) -> tuple[object, ...]:
    """Let threads run hooks as a wrapper of a traced call does; give rows and totals of the books."""
    clock = FakeClock()
    published: list[Segment] = []
    ledger = Ledger(clock())
    journal = Journal(OWNER, published.append, clock)
    for passed, action, account, thread in script:
        clock.advance(passed)
        if thread == OTHER and (not with_others or journal.is_foreign(thread)):
            continue
        if action in ("enter", "call", "raise"):
            journal.write(account)
        if action in ("leave", "call"):  # "raise": a call whose leave never came
            journal.write(~account)
        if action == "abort":
            journal.write(ABORT)
        if action in ("close", "part"):
            journal.cut(StepCapture() if action == "close" else None)
    journal.cut(None)
    rows = [row for row in map(ledger.replay, published) if row is not None]
    books = [
        (row.start_ns, row.open_ns, row.end_ns, row.inside, row.between, row.calls) for row in rows
    ]
    ledger.close()
    totals = ledger.totals()
    assert sum(totals.total_ns) == clock() - FakeClock().moment
    return (books, totals)


@given(actions)
@settings(max_examples=300, deadline=None)
def test_other_threads_leave_no_trace_in_the_books_of_any_run(
    script: list[tuple[int, str, int, int]],
) -> None:
    assert play(script, with_others=True) == play(script, with_others=False)
