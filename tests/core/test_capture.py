"""A capture ends once, and a late caller can never finish a step that is not its own."""

from traintrace.recording.steps import StepCapture


def test_completing_and_aborting_are_idempotent() -> None:
    ends: list[bool] = []
    capture = StepCapture()
    capture.on_end = lambda capture, completed: ends.append(completed)
    assert capture.complete()
    assert not capture.complete()
    assert not capture.abort()
    assert ends == [True]
    assert capture.ended


def test_sizes_add_up_and_unknown_ones_stay_unknown() -> None:
    capture = StepCapture()
    capture.count(4, None, 14)
    capture.count(3)
    assert (capture.samples, capture.tokens, capture.padded_tokens) == (7, None, 14)


def test_what_one_step_logged_is_not_seen_by_the_next() -> None:
    first, second = (StepCapture() for _ in range(2))
    first.log("loss", 1.0)
    assert list(second.scalars) == []
    assert list(first.scalars) == [("loss", 1.0)]
