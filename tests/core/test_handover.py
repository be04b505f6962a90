"""The bounded queue between training and the drain: no nanosecond is lost, no step is merged."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from traintrace import accounts as A
from traintrace.recording.handover import SLICE, Handover
from traintrace.recording.journal import Segment
from traintrace.recording.ledger import Ledger
from traintrace.recording.steps import StepCapture


def capture() -> StepCapture:
    made = StepCapture()
    made.micro_batches = 1
    made.samples = 4
    return made


def segment(start: int, length: int, *, completed: bool = True) -> Segment:
    entries = (start, A.INPUT_WAIT, start + length // 2, ~A.INPUT_WAIT)
    return Segment(entries, start + length, capture() if completed else None, None)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_an_overflowing_queue_drops_rows_and_no_time(
    capacity: int, steps: list[tuple[int, bool]]
) -> None:
    handover = Handover(Ledger(0), capacity=capacity)
    moment, rows = 0, []
    for length, drain in steps:
        handover.put(segment(moment, length))
        moment += length
        if drain:
            rows += handover.replay()[0]
    rows += handover.replay()[0]
    _, totals = handover.close()
    assert sum(totals.total_ns) == moment
    assert totals.steps == len(steps) == len(rows) + handover.counts.dropped_rows
    assert handover.counts.micro_batches == len(steps)
    assert [number for number, _ in rows] == sorted({number for number, _ in rows})
    assert (handover.counts.samples or 0) == 4 * len(steps)


def test_the_queue_never_holds_more_than_its_capacity() -> None:
    handover = Handover(Ledger(0), capacity=8)
    for index in range(100):
        handover.put(segment(index * 10, 10))
        assert len(handover.waiting) <= 8


def test_a_busy_drain_never_makes_training_wait() -> None:
    handover = Handover(Ledger(0), capacity=1)
    handover.put(segment(0, 10))
    with handover._lock:  # the drain is booking at this moment
        thread = threading.Thread(target=handover.put, args=(segment(10, 10),))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
    assert len(handover.replay()[0]) == 2


def test_a_slice_is_bounded_and_says_that_more_wait() -> None:
    handover = Handover(Ledger(0))
    for index in range(SLICE + 1):
        handover.put(segment(index * 10, 10))
    rows, _, more = handover.replay()
    assert len(rows) == SLICE
    assert more
    assert handover.replay()[2] is False


def test_equal_steps_stay_two_rows() -> None:
    handover = Handover(Ledger(0))
    handover.put(segment(0, 10))
    handover.put(segment(10, 10))
    rows, _, _ = handover.replay()
    assert [(number, row.inside[A.INPUT_WAIT]) for number, row in rows] == [(1, 5), (2, 5)]
