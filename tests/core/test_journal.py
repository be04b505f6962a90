"""The journal on the training thread: what it publishes, and who may write."""

import threading
from threading import get_ident

from hypothesis import given
from hypothesis import strategies as st

from traintrace.accounts import FORWARD, INPUT_WAIT
from traintrace.journal import PART_ENTRIES, Journal, Segment
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
