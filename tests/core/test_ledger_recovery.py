"""What the ledger makes of steps that are given up afterwards, and of an optimizer step that raised."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.journal_script import Script
from traintrace import accounts as A
from traintrace.recording.journal import ABANDON, ABORT, BASE, OPEN, REGION, SWITCH


def step(play: Script, ns: int, **where: Any) -> Any:
    return play.play((2, A.INPUT_WAIT), (ns, ~A.INPUT_WAIT), close=1, **where)


def test_abandoned_steps_become_aborted_time_and_their_numbers_stay_taken() -> None:
    play = Script()
    step(play, 10)
    step(play, 20)
    play.play((5, ABANDON), (1, BASE + A.STARTUP), close=3, part=True)
    step(play, 40)
    totals = play.ledger.totals()
    assert (totals.steps, totals.steps_aborted, totals.steps_abandoned) == (1, 2, 2)
    assert play.ledger.last_step == 3
    assert totals.total_ns[A.ABORTED] == 10 + 20 + 2 * 1
    assert totals.total_ns[A.INPUT_WAIT] == 40
    assert totals.inside_ns[A.ABORTED] == 0
    assert (totals.calls[A.ABORTED], totals.calls[A.INPUT_WAIT]) == (2, 1)
    # What lay between those steps was no part of them.
    assert totals.total_ns[A.STARTUP] == 2 + 3 + 2
    assert totals.total_ns[A.GAP] == 2 + 5 + 1
    assert sum(totals.total_ns) == play.now - play.start


def test_a_step_that_is_open_is_abandoned_too() -> None:
    play = Script()
    step(play, 10)
    play.play((0, A.INPUT_WAIT), (7, ~A.INPUT_WAIT), (3, ABANDON), part=True)
    row = step(play, 40)
    assert row.between[A.ABORTED] == 10
    totals = play.ledger.totals()
    assert (totals.steps, totals.steps_aborted, totals.steps_abandoned) == (1, 2, 1)
    assert totals.total_ns[A.ABORTED] == 10 + 1 + 10


def test_steps_may_be_abandoned_again() -> None:
    play = Script()
    for ns in (10, 20):
        step(play, ns)
        play.play((0, ABANDON), part=True)
    play.play((0, ABANDON), part=True)  # nothing was completed since: nothing changes
    totals = play.ledger.totals()
    assert (totals.steps, totals.steps_aborted, totals.steps_abandoned) == (0, 2, 2)
    assert totals.calls[A.ABORTED] == 2


# A loop that catches what its optimizer raised: blocks that open and close at the top of the step.
def _block(account: int, inner: int | None, before: int, ns: int) -> list[tuple[int, int]]:
    nested = [] if inner is None else [(1, inner), (ns, ~inner)]
    return [(before, account), *nested, (ns, ~account)]


blocks = st.builds(
    _block,
    st.sampled_from([A.INPUT_WAIT, A.FORWARD, A.BACKWARD, A.OPTIMIZER, A.CALLBACKS, A.H2D]),
    st.sampled_from([None, A.LOGGING, A.FORWARD, A.OPTIMIZER]),
    st.integers(0, 9),
    st.integers(0, 9),
)


@given(st.lists(blocks, max_size=5), st.integers(0, 9), st.lists(blocks, max_size=6), st.booleans())
@settings(max_examples=400, deadline=None)
def test_an_optimizer_that_raised_ends_where_the_loop_visibly_goes_on(
    before: Any, opened_after: int, after: Any, in_parts: bool
) -> None:
    start = [(3, A.INPUT_WAIT), (4, ~A.INPUT_WAIT), *(pair for block in before for pair in block)]
    goes_on = [pair for block in after for pair in block]
    raised, ended = Script(), Script()
    events = [*start, (opened_after, A.OPTIMIZER), *goes_on]
    if in_parts:
        for event in events:
            raised.play(event, part=True)
        row = raised.play(close=5)
    else:
        row = raised.play(*events, close=5)
    # The truth: it was left at the instant at which the next thing opened.
    closing = [(goes_on[0][0], ~A.OPTIMIZER), (0, goes_on[0][1]), *goes_on[1:]] if goes_on else []
    expected = ended.play(*start, (opened_after, A.OPTIMIZER), *closing, close=5)
    assert row.inside == expected.inside
    assert row.calls == expected.calls
    faults = raised.ledger.totals().unbalanced - ended.ledger.totals().unbalanced
    assert faults == (1 if goes_on else 0)


@given(st.lists(blocks, max_size=6), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_closure_stays_inside_its_optimizer_whatever_it_runs(
    closure: Any, in_parts: bool
) -> None:
    inside = [pair for block in closure for pair in block]
    play = Script()
    events = [(0, OPEN), (0, A.OPTIMIZER), *inside, (6, ~A.OPTIMIZER)]
    if in_parts:
        for event in events:
            play.play(event, part=True)
        row = play.play(close=5)
    else:
        row = play.play(*events, close=5)
    own = row.inside[A.BATCH_PREP] + row.inside[A.OTHER]
    assert own == 5  # nothing but what follows the optimizer
    assert row.calls[A.OPTIMIZER] >= 1
    assert play.ledger.totals().unbalanced == 0
    assert sum(row.inside) == row.end_ns - row.open_ns


def test_a_retry_after_an_optimizer_that_raised_is_a_second_call() -> None:
    play = Script()
    row = play.play(
        (0, OPEN), (0, A.OPTIMIZER), (5, A.OPTIMIZER), (7, ~A.OPTIMIZER), (2, A.FORWARD),
        (10, ~A.FORWARD), close=4,
    )  # fmt: skip
    assert (row.inside[A.OPTIMIZER], row.calls[A.OPTIMIZER]) == (12, 2)
    assert row.inside[A.OTHER] == 2 + 4
    assert play.ledger.totals().unbalanced == 1


def test_an_optimizer_inside_an_optimizer_is_one_call() -> None:
    row = Script().play(
        (0, OPEN), (1, A.OPTIMIZER), (2, A.OPTIMIZER), (3, ~A.OPTIMIZER), (4, ~A.OPTIMIZER)
    )
    assert (row.inside[A.OPTIMIZER], row.calls[A.OPTIMIZER]) == (9, 1)


def test_a_mark_of_the_optimizer_s_phase_ends_with_its_step_and_is_no_fault() -> None:
    play = Script()
    row = play.play(
        (0, OPEN), (0, SWITCH + A.OPTIMIZER), (5, REGION), (3, REGION + 1), close=4,
    )  # fmt: skip
    assert (row.inside[A.OPTIMIZER], row.inside[A.USER]) == (9, 3)
    assert play.ledger.totals().unbalanced == 0


def test_a_step_aborted_after_its_optimizer_raised_is_aborted_whole() -> None:
    play = Script()
    play.play((0, OPEN), (1, A.OPTIMIZER), (5, A.FORWARD), (6, ~A.FORWARD), (7, ABORT), part=True)
    row = step(play, 1)
    assert row.between[A.ABORTED] == 1 + 5 + 6 + 7


def test_evaluations_and_checkpoints_are_told_once_with_their_whole_length() -> None:
    play = Script()
    play.play((0, A.INPUT_WAIT), (1, ~A.INPUT_WAIT))
    begun = play.now
    # A validation loop that spans several segments, with a checkpoint and a nested mark inside it.
    play.play((2, A.EVALUATION), (5, A.FORWARD), (9, ~A.FORWARD), part=True)
    play.play(
        (1, A.EVALUATION), (3, A.CHECKPOINT), (4, ~A.CHECKPOINT), (1, ~A.EVALUATION), part=True
    )
    play.play((2, A.INPUT_WAIT), (2, ~A.INPUT_WAIT), (6, ~A.EVALUATION))
    told = {one.kind: one for one in play.ledger.occurrences.take()}
    evaluation, checkpoint = told["evaluation"], told["checkpoint"]
    assert (evaluation.start_ns, evaluation.step) == (begun + 2, 2)
    assert checkpoint.duration_ns == 4
    assert evaluation.start_ns < checkpoint.start_ns
    assert evaluation.duration_ns == (5 + 9) + (1 + 3 + 4 + 1) + (2 + 2 + 6)
    assert len(told) == 2
    assert play.ledger.occurrences.take() == []


def test_a_prediction_that_the_end_cut_short_ends_with_the_span() -> None:
    play = Script()
    play.play((3, A.PREDICTION), (1, A.FORWARD), close=8, part=True)
    play.ledger.close()
    (told,) = play.ledger.occurrences.take()
    assert (told.kind, told.duration_ns, told.step) == ("prediction", 9, 1)
