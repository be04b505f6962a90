"""Faults of the tracer never reach training: they are reported once, with what is lost.

Under the project's own tests faults are raised, so that no defect hides behind this rule.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class TraintraceWarning(UserWarning):
    """Something that the tracer could not do; training is not affected."""


class FaultReporter:
    """Reports each kind of fault once.

    Attributes:
        raise_faults: Raise instead of reporting; set by the project's own tests.
        messages: What was reported, in order; the report repeats them.
    """

    __slots__ = ("_seen", "messages", "raise_faults")

    def __init__(self, raise_faults: bool = False) -> None:
        self._seen: set[str] = set()
        self.messages: list[str] = []
        self.raise_faults = raise_faults

    def warn(self, message: str, *, recorded: str | None = None) -> None:
        """Tell the user once that something is missing; training goes on.

        Args:
            message: What the user is told.
            recorded: What the run says of it, where the message holds a path, a host or a URL: those
                are not for whoever reads the run. None if it says the same.
        """
        if message in self._seen:
            return
        self._seen.add(message)
        self.messages.append(message if recorded is None else recorded)
        try:
            # Without a line of ours: the message says all, and no line of the user's is at fault.
            warnings.warn_explicit(message, TraintraceWarning, "traintrace", 0)
        except TraintraceWarning:
            # The user turned warnings into errors; ours must not stop training.
            pass

    def fault(self, error: Exception, what_is_lost: str) -> None:
        """Report a defect of the tracer, or raise it under test."""
        if self.raise_faults:
            raise error
        kind = type(error).__name__
        rest = f"lost: {what_is_lost}. Training is not affected."
        self.warn(
            f"traintrace failed ({kind}: {error}); {rest}",
            recorded=f"traintrace failed ({kind}); {rest}",
        )

    @contextmanager
    def guard(self, what_is_lost: str) -> Iterator[None]:
        """Run the tracer's own work so that its faults do not reach training."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - reported, with what is lost
            self.fault(error, what_is_lost)


def guarded(
    reporter: Callable[[], FaultReporter], what_is_lost: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result | None]]:
    """Decorate a function of the tracer that training calls: on a fault it gives None."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result | None]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | None:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - reported, with what is lost
                reporter().fault(error, what_is_lost)
                return None

        return call

    return decorate
