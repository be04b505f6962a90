"""Ask a place without hanging on it."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from traintrace.publishing.place import LocationError

# The start of training waits so long at most for a place that does not answer.
ANSWER_S: Final = 10.0

Result = TypeVar("Result")


def within(seconds: float, what: str, ask: Callable[[], Result]) -> Result:
    """Give the answer of a place, or give up; a place that hangs must not hold up training.

    Raises:
        LocationError: It did not answer in time.
        Exception: What asking raised.
    """
    answers: list[Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001 - raised in the thread that asks
            errors.append(error)

    thread = threading.Thread(target=run, name="traintrace-place", daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    raise errors[0] if errors else LocationError(f"{what} did not answer within {seconds:g} s")
