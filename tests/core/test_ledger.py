"""The ledger's laws, driven with random transitions, missing leaves and hand-made situations."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.journal_script import Script, capture
from traintrace import accounts as A
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
from traintrace.recording.ledger import Ledger

CODES = (
    [*range(A.COUNT), *(~account for account in range(A.COUNT))]
    + [SWITCH + account for account in range(A.COUNT)]
    + [BASE + account for account in (A.STARTUP, A.GAP, A.SHUTDOWN)]
    + [OPEN, ABORT, ABANDON, EXHAUSTED, RETRACT, UNUSED, OWN_WORK_DONE, *range(REGION, REGION + 6)]
    + [999_999 - 1, 63]
)


segments = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 50), st.sampled_from(CODES)), max_size=30),
        st.integers(0, 50),
        st.booleans(),
    ),
    max_size=12,
)


@given(segments)
@settings(max_examples=400, deadline=None)
def test_whatever_was_written_every_nanosecond_is_in_exactly_one_account(script: Any) -> None:
    play = Script()
    for events, close, part in script:
        play.play(*events, close=close, part=part)
    tail_inside, tail_between, _ = play.ledger.close()
    totals = play.ledger.totals()
    wall = play.now - play.start
    assert sum(totals.total_ns) == wall == totals.end_ns - totals.start_ns
    rows = sum(sum(row.inside) + sum(row.between) for row in play.rows)
    assert rows + sum(tail_inside) + sum(tail_between) == wall
    assert min(totals.total_ns) >= 0


@given(segments)
@settings(max_examples=400, deadline=None)
def test_rows_tile_the_time_line_and_sum_to_their_own_length(script: Any) -> None:
    play = Script()
    edge = play.start
    for events, close, part in script:
        row = play.play(*events, close=close, part=part)
        if row is not None:
            assert row.start_ns == edge
            assert row.end_ns == play.now
            assert row.start_ns <= row.open_ns <= row.end_ns
            assert sum(row.inside) + sum(row.between) == row.end_ns - row.start_ns
            # A step that began in an earlier part may have been re-opened, never twice counted.
            assert sum(row.inside) == row.end_ns - row.open_ns
            edge = row.end_ns


@given(segments, st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_publishing_a_step_in_parts_changes_nothing(script: Any, size: int) -> None:
    whole, parts = Script(), Script()
    for events, close, _ in script:
        row = whole.play(*events, close=close)
        for index in range(0, len(events), size):
            parts.play(*events[index : index + size], close=0, part=True)
        split = parts.play(close=close)
        assert (row.inside, row.between, row.calls, row.open_ns) == (
            split.inside,
            split.between,
            split.calls,
            split.open_ns,
        )


@given(segments)
@settings(max_examples=200, deadline=None)
def test_totals_are_the_sums_of_rows(script: Any) -> None:
    play, abandoned = Script(), 0
    for events, close, _ in script:
        if any(code == ABANDON for _, code in events):
            abandoned = len(play.rows)
        play.play(*events, close=close)
    totals, counted = play.ledger.totals(), play.rows[abandoned:]
    given_up = sum(sum(row.inside) for row in play.rows[:abandoned])
    for account in range(A.COUNT):
        inside = sum(row.inside[account] for row in counted)
        between = sum(row.between[account] for row in play.rows)
        aborted = given_up if account == A.ABORTED else 0
        assert totals.inside_ns[account] == inside
        assert totals.total_ns[account] == inside + between + aborted
        if not abandoned:
            assert totals.calls[account] == sum(row.calls[account] for row in play.rows)
    assert totals.steps == len(counted)
    assert totals.steps_abandoned == abandoned == play.ledger.last_step - totals.steps
    assert totals.steps_aborted >= abandoned


def test_a_plain_step_is_booked_phase_by_phase() -> None:
    play = Script()
    row = play.play(
        (5, A.INPUT_WAIT),
        (40, ~A.INPUT_WAIT),
        (3, A.FORWARD),
        (20, ~A.FORWARD),
        (2, A.BACKWARD),
        (30, ~A.BACKWARD),
        (0, A.OPTIMIZER),
        (7, ~A.OPTIMIZER),
        close=4,
    )
    amounts = {A.NAMES[i]: ns for i, ns in enumerate(row.inside) if ns}
    assert amounts == {
        "input_wait": 40,
        "batch_prep": 3,
        "forward": 20,
        "backward": 30,
        "optimizer": 7,
        "other": 6,
    }
    assert row.between[A.STARTUP] == 5
    assert row.open_ns == row.start_ns + 5


def test_a_closure_inside_the_optimizer_keeps_forward_and_backward_apart() -> None:
    row = Script().play(
        (0, OPEN),
        (0, A.OPTIMIZER),
        (1, A.FORWARD),
        (10, ~A.FORWARD),
        (1, A.BACKWARD),
        (20, ~A.BACKWARD),
        (5, ~A.OPTIMIZER),
    )
    assert row.inside[A.OPTIMIZER] == 7
    assert (row.inside[A.FORWARD], row.inside[A.BACKWARD]) == (10, 20)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (A.EVALUATION, A.FORWARD),
        (A.EVALUATION, A.INPUT_WAIT),
        (A.TUNING, A.OPTIMIZER),
        (A.BACKWARD, A.FORWARD),
        (A.FORWARD, A.BACKWARD),
        (A.FORWARD, A.FORWARD),
        (A.CALLBACKS, A.FORWARD),
        (A.CHECKPOINT, A.LOGGING),
    ],
)
def test_a_sealed_account_keeps_what_runs_inside_it(outer: int, inner: int) -> None:
    row = Script().play((0, OPEN), (0, outer), (3, inner), (10, ~inner), (2, ~outer))
    assert row.inside[outer] == 15
    assert outer == inner or row.inside[inner] == 0
    assert row.calls[outer] == 1


def test_an_update_in_backward_stays_separable() -> None:
    row = Script().play(
        (0, OPEN), (0, A.BACKWARD), (5, A.OPTIMIZER), (7, ~A.OPTIMIZER), (9, ~A.BACKWARD)
    )
    assert (row.inside[A.BACKWARD], row.inside[A.OPTIMIZER]) == (14, 7)


def test_own_backward_work_ends_at_its_mark() -> None:
    row = Script().play((0, OPEN), (0, A.BACKWARD), (30, OWN_WORK_DONE), (50, ~A.BACKWARD))
    assert (row.inside[A.BACKWARD], row.inside[A.GRADIENT_SYNC]) == (30, 50)


def test_leaving_unwinds_to_the_matching_entry_at_one_instant() -> None:
    play = Script()
    row = play.play((0, OPEN), (0, A.CALLBACKS), (1, A.LOGGING), (2, ~A.CALLBACKS), close=10)
    assert (row.inside[A.CALLBACKS], row.inside[A.LOGGING]) == (1, 2)
    assert row.inside[A.BATCH_PREP] == 10
    assert play.ledger.totals().unbalanced == 1


def test_an_unknown_leave_changes_nothing_and_is_counted() -> None:
    play = Script()
    row = play.play((0, OPEN), (4, ~A.FORWARD), close=6)
    assert row.inside[A.BATCH_PREP] == 10
    assert play.ledger.totals().unbalanced == 1


def test_an_optimizer_that_raised_does_not_leak_into_the_next_step() -> None:
    play = Script()
    play.play((0, OPEN), (1, A.OPTIMIZER), (5, ABORT), close=2, part=True)
    row = play.play((0, A.INPUT_WAIT), (3, ~A.INPUT_WAIT), close=1)
    assert row.between[A.ABORTED] == 6
    assert row.between[A.GAP] == 2
    assert row.inside[A.OPTIMIZER] == 0


def test_an_aborted_step_gives_its_time_to_one_account_and_no_row() -> None:
    play = Script()
    play.play(
        (5, A.INPUT_WAIT),
        (3, ~A.INPUT_WAIT),
        (1, A.FORWARD),
        (9, ~A.FORWARD),
        (2, ABORT),
        part=True,
    )
    row = play.play((4, A.INPUT_WAIT), (6, ~A.INPUT_WAIT), close=1)
    assert row.between[A.ABORTED] == 15
    assert row.between[A.STARTUP] == 5
    assert row.between[A.GAP] == 4
    assert row.calls[A.FORWARD] == 0
    totals = play.ledger.totals()
    assert (totals.steps, totals.steps_aborted) == (1, 1)


def test_a_fetch_that_brought_nothing_opens_no_step() -> None:
    play = Script()
    play.play((0, A.INPUT_WAIT), (3, ~A.INPUT_WAIT), close=1)
    play.play((2, A.INPUT_WAIT), (8, EXHAUSTED), (0, ~A.INPUT_WAIT), close=4, part=True)
    row = play.play((1, A.INPUT_WAIT), (5, ~A.INPUT_WAIT))
    assert row.between[A.EPOCH_BOUNDARY] == 8
    assert row.between[A.GAP] == 7
    assert row.inside[A.INPUT_WAIT] == 5
    assert row.calls[A.INPUT_WAIT] == 1


def test_a_fetch_inside_a_fetch_that_brought_nothing_leaves_the_outer_one_its_call() -> None:
    play = Script()
    row = play.play(
        (0, A.INPUT_WAIT),
        (3, A.INPUT_WAIT),
        (5, EXHAUSTED),
        (0, ~A.EPOCH_BOUNDARY),
        (0, ~A.INPUT_WAIT),
        (2, ~A.INPUT_WAIT),
    )
    assert row.calls[A.INPUT_WAIT] == 1


def test_a_group_that_data_leaves_open_keeps_its_time_for_the_next_update() -> None:
    play = Script()
    row = play.play(
        (0, A.INPUT_WAIT),
        (3, ~A.INPUT_WAIT),
        (0, A.FORWARD),
        (10, ~A.FORWARD),
        (0, A.INPUT_WAIT),
        (2, EXHAUSTED),
        (0, ~A.INPUT_WAIT),
        (0, A.INPUT_WAIT),
        (4, ~A.INPUT_WAIT),
        (0, A.FORWARD),
        (10, ~A.FORWARD),
    )
    assert row.inside[A.INPUT_WAIT] == 7
    assert row.inside[A.EPOCH_BOUNDARY] == 2
    assert row.inside[A.FORWARD] == 20


def test_a_region_open_at_a_close_is_split_over_both_rows() -> None:
    play = Script()
    first = play.play((0, OPEN), (1, REGION), close=10)
    second = play.play((0, OPEN), (20, REGION + 1), close=5)
    assert first.regions == {0: (10, 1)}
    assert second.regions == {0: (20, 0)}
    assert (first.inside[A.USER], second.inside[A.USER]) == (10, 20)


def test_a_region_inside_a_phase_names_time_without_taking_it() -> None:
    row = Script().play((0, OPEN), (0, A.FORWARD), (1, REGION), (5, REGION + 1), (1, ~A.FORWARD))
    assert row.inside[A.FORWARD] == 7
    assert row.inside[A.USER] == 0
    assert row.regions == {0: (5, 1)}


def test_marks_switch_from_phase_to_phase_and_end_with_their_step() -> None:
    play = Script()
    row = play.play(
        (0, A.INPUT_WAIT),
        (9, ~A.INPUT_WAIT),
        (1, SWITCH + A.FORWARD),
        (20, SWITCH + A.BACKWARD),
        (30, SWITCH + A.OPTIMIZER),
        close=5,
    )
    assert [row.inside[a] for a in (A.FORWARD, A.BACKWARD, A.OPTIMIZER)] == [20, 30, 5]
    after = play.play((7, A.INPUT_WAIT), (1, ~A.INPUT_WAIT))
    assert after.between[A.GAP] == 7


def test_phases_between_steps_are_no_training_time() -> None:
    play = Script()
    play.play((0, A.INPUT_WAIT), (1, ~A.INPUT_WAIT))
    row = play.play((2, A.FORWARD), (30, ~A.FORWARD), (1, A.INPUT_WAIT), (1, ~A.INPUT_WAIT))
    assert row.between[A.GAP] == 33
    assert row.calls[A.FORWARD] == 0


def test_evaluation_inside_a_step_keeps_its_own_account() -> None:
    row = Script().play((0, OPEN), (1, A.EVALUATION), (50, ~A.EVALUATION), close=2)
    assert row.inside[A.EVALUATION] == 50


def test_time_after_the_last_step_is_shutdown() -> None:
    play = Script()
    play.play((0, A.INPUT_WAIT), (1, ~A.INPUT_WAIT))
    play.play(close=40, part=True)
    _, between, _ = play.ledger.close()
    assert between[A.SHUTDOWN] == 40
    assert between[A.GAP] == 0


def test_a_clock_that_goes_back_loses_no_time() -> None:
    ledger = Ledger(100)
    segment = Segment((110, OPEN, 105, A.FORWARD, 120, ~A.FORWARD), 130, capture(), None)
    row = ledger.replay(segment)
    assert row is not None
    assert sum(row.inside) + sum(row.between) == 30
    assert ledger.totals().unbalanced == 1


def test_batches_that_nothing_was_trained_on_leave_their_time_where_it_was() -> None:
    play = Script()
    fetch = (0, A.INPUT_WAIT), (6, ~A.INPUT_WAIT)
    evaluation = (1, A.EVALUATION), (4, ~A.EVALUATION)
    play.play(*fetch, (2, A.FORWARD), (3, ~A.FORWARD), *evaluation, (1, UNUSED), *fetch, close=10)
    play.play((5, A.INPUT_WAIT), (7, ~A.INPUT_WAIT), (2, UNUSED), *fetch, close=10)
    first, second = play.rows
    assert first.between[A.STARTUP] == 6 + 2 + 3 + 1 + 1
    assert first.between[A.EVALUATION] == 4
    assert (first.inside[A.INPUT_WAIT], first.calls[A.INPUT_WAIT]) == (6, 1)
    assert (first.inside[A.FORWARD], first.calls[A.FORWARD]) == (0, 0)
    assert second.between[A.GAP] == 5 + 7 + 2
    assert second.inside[A.INPUT_WAIT] == 6
    assert play.ledger.totals().steps_aborted == play.ledger.totals().unbalanced == 0


def test_a_step_opened_for_a_request_that_brought_nothing_has_not_opened() -> None:
    play = Script()
    play.play((5, BASE + A.GAP), (1, OPEN), (8, RETRACT), (3, OPEN), close=10)
    (row,) = play.rows
    assert row.between[A.EPOCH_BOUNDARY] == 8
    assert row.between[A.GAP] == 1 + 3
    assert row.inside[A.BATCH_PREP] == 10
    assert play.ledger.totals().steps_aborted == 0
    assert play.ledger.totals().unbalanced == 0
