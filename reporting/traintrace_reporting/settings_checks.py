"""What is wrong with a value of `traintrace.yaml`, in words: the checks that its keys are made of."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from traintrace.errors import UsageError
from traintrace.options import TraceOptions
from traintrace_reporting.guard_contract import first_problem


def one_of(*words: str) -> Callable[[object], str]:
    """Check that a value is one of these words."""
    return lambda value: "" if value in words else f"use one of {', '.join(words)}"


def yes_or_no(value: object) -> str:
    """Say what is wrong with a value that should be true or false."""
    return "" if isinstance(value, bool) else "use true or false"


def text(value: object) -> str:
    """Say what is wrong with a text."""
    return "" if isinstance(value, str) and value.strip() else "use a text"


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def whole(option: str) -> Callable[[object], str]:
    """Check a whole number, in the range that the option of this name has; null is the default."""

    def check(value: object) -> str:
        if value is None or _is_number(value, int):
            return _out_of_range(option, value)
        return "use a whole number, or null"

    return check


def interval(value: object) -> str:
    """Say what is wrong with the seconds between two readings; null is the default."""
    if value is None or _is_number(value, int, float):
        return _out_of_range("interval_s", value)
    return "use a number of seconds such as 0.5 (PyYAML reads 1e-1 as a text), or null"


def amount(option: str, wanted: str, *words: str) -> Callable[[object], str]:
    """Check an amount, in the range that the option of this name has, or a word; null is the default."""

    def check(value: object) -> str:
        if value is None or value in words:
            return ""
        if _is_number(value, int, float):
            return _out_of_range(option, value)
        return f"use {wanted}, or null"

    return check


def _out_of_range(option: str, value: object) -> str:
    """Say what the tracer itself says of a value: a range has one home."""
    try:
        TraceOptions(**cast("dict[str, Any]", {option: value}))
    except UsageError as error:
        return str(error).rpartition(": ")[2].replace("None", "null")
    return ""


def steps(option: str) -> Callable[[object], str]:
    """Check a first and a last step in brackets; null is the default."""

    def check(value: object) -> str:
        if value is None or (isinstance(value, list) and not _out_of_range(option, tuple(value))):
            return ""
        return "use [first, last] with whole numbers from 1, or null"

    return check


def guard(value: object) -> str:
    """Say what is wrong with the declaration of a guarded workload."""
    problem = None if value is None else first_problem(value)
    return "" if problem is None else problem.told


def place_in_guard(value: object) -> Sequence[str]:
    """Give the keys that lead to what is wrong inside a declaration."""
    problem = None if value is None else first_problem(value)
    return () if problem is None else problem.place
