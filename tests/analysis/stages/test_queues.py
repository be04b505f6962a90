"""Occupancy of queues, and what is told when their books do not balance."""

from dataclasses import replace

import pytest

from traintrace.stagefacts import QueueRecord
from traintrace_analysis.stages.occupancy import measure_queue

MS = 1_000_000


def queue(put_ms: list[float], get_ms: list[float], capacity: int | None = 2) -> QueueRecord:
    puts, gets = [round(one * MS) for one in put_ms], [round(one * MS) for one in get_ms]
    return QueueRecord("q", capacity, len(puts), len(gets), puts, gets, ("a",), ("b",))


def test_occupancy_is_weighted_with_time() -> None:
    # One item from 0 to 10, two until 14, one until 20: then empty until a last one passes at 40.
    found = measure_queue(queue([0, 10, 40], [14, 20, 40]))
    assert found.mean_items == pytest.approx((10 * 1 + 4 * 2 + 6 * 1) / 40)
    assert found.full_share == pytest.approx(0.1)
    assert found.empty_share == pytest.approx(0.5)
    assert found.residence_ms == pytest.approx((14 + 10 + 0) / 3)
    assert found.per_s == pytest.approx(3 / 0.040)
    assert found.little_deviation == pytest.approx(0.0)
    assert (found.held, found.imbalance, found.doubt) == (0, 0, "")


def test_a_queue_without_bounds_is_never_full() -> None:
    found = measure_queue(queue([0, 1, 2, 3], [10, 20, 30, 40], None))
    assert found.full_share is None
    assert found.mean_items == pytest.approx(2.5, abs=0.2)


def test_what_came_out_and_never_went_in_is_told() -> None:
    found = measure_queue(queue([0, 10], [1, 2, 3, 11]))
    assert found.imbalance == -2
    assert "2 items more came out of q than were seen to go in" in found.doubt


def test_what_went_in_and_neither_came_out_nor_can_be_held_is_told() -> None:
    found = measure_queue(queue([0, 1, 2, 3, 4, 5], [6], 2))
    assert (found.held, found.imbalance) == (5, 3)
    assert "3 items more went into q than came out or than it holds" in found.doubt


def test_items_held_in_the_end_are_no_fault() -> None:
    found = measure_queue(queue([0, 1, 2], [5], 2))
    assert (found.held, found.imbalance, found.doubt) == (2, 0, "")


def test_moments_that_lie_far_apart_from_the_truth_are_told() -> None:
    # All gets were seen before their puts: a clock of another process that is ahead.
    puts = [float(n) for n in range(5, 105)]
    found = measure_queue(queue(puts, [one - 4.5 for one in puts], 2))
    assert found.imbalance == 0
    assert "fewer items than none" in found.doubt


def test_a_get_seen_a_little_before_its_put_is_no_fault() -> None:
    puts = [float(n) for n in range(0, 400, 4)]
    assert measure_queue(queue(puts, [one - 0.05 for one in puts], 2)).doubt == ""


def test_an_unused_queue_has_no_numbers() -> None:
    found = measure_queue(queue([], []))
    assert (found.mean_items, found.residence_ms, found.per_s, found.doubt) == (
        None,
        None,
        None,
        "",
    )


def test_only_the_stretch_of_which_both_ends_are_kept_counts() -> None:
    puts = [float(n) for n in range(100)]
    whole = queue(puts, [one + 1.5 for one in puts], 4)
    cut = replace(whole, put_ns=whole.put_ns[-30:])
    found = measure_queue(cut)
    assert found.seen_s == pytest.approx(0.0305, abs=0.001)
    assert found.mean_items == pytest.approx(1.5, abs=0.05)
    assert found.residence_ms == pytest.approx(1.5)
    assert found.doubt == ""


def test_what_was_in_it_from_the_beginning_is_neither_missing_nor_put() -> None:
    # Two items until 10, one until 20, two until 30, one until 40.
    found = measure_queue(replace(queue([20], [10, 30, 40]), held=2))
    assert (found.puts, found.held, found.imbalance, found.doubt) == (1, 0, 0, "")
    assert found.mean_items == pytest.approx((10 * 1 + 10 * 2 + 10 * 1) / 30)
    assert found.residence_ms == pytest.approx(20)  # of the one whose put is known
