"""How a run ended, as far as the process can tell."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

EndStatus = Literal["completed", "failed", "interrupted"]


def status_of(error: BaseException | None) -> EndStatus:
    """Give how training ended from what ended it: Ctrl-C interrupts, a clean exit completes."""
    if error is None or isinstance(error, GeneratorExit):
        return "completed"
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "completed"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"


def error_of_script() -> BaseException | None:
    """Give what ended the script, as the interpreter shuts down; None if nothing did."""
    if hasattr(sys, "ps1"):
        return None  # a notebook's last error ended no training
    last: BaseException | None = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return last


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Keep Python's random draws as they are: Rich takes one when it is imported."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
