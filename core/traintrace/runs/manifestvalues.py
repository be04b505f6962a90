"""Which values may stand in a manifest: people edit it, and disks damage it."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, get_args

from traintrace.facts import RunStatus

# More than any real manifest has; what is larger is not read.
MAX_BYTES: Final = 16 * 2**20
_MOST_TEXT: Final = 4_096
_MOST_RANKS: Final = 10_000_000
_YEAR_10000: Final = 253_402_300_800.0

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Check = Callable[[Any], bool]


def parse(text: str) -> Any:
    """Read JSON, and nothing that is only JSON for Python.

    Raises:
        ValueError: It is none.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def check(content: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """Check the values that are there.

    Raises:
        ValueError: One of them is impossible; the message names it.
    """
    for name, is_right in checks.items():
        if name in content and not is_right(content[name]):
            shown = repr(content[name])
            raise ValueError(f"{name} is {shown if len(shown) <= 80 else shown[:80] + '...'}")


def without_controls(text: str) -> str:
    """Give a text with a dash for each character that moves a terminal's cursor, or worse."""
    return _CONTROLS.sub("-", text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT and value == without_controls(value)


def _is_name(value: Any) -> bool:
    return _is_text(value) and value != ""


def _is_moment(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value < _YEAR_10000


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST_RANKS


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _or_none(is_right: Check) -> Check:
    return lambda value: value is None or is_right(value)


def _one_of(*words: str) -> Check:
    return lambda value: value in words


def _mapping_of(is_right: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(_is_text(k) and is_right(v) for k, v in value.items())
    )


MANIFEST: Final[Mapping[str, Check]] = {
    "name": _is_name,
    "id": _is_name,
    "status": _one_of(*get_args(RunStatus)),
    "exit_code": _or_none(_is_whole),
    "plugin": _is_text,
    "plugin_version": _is_text,
    "framework": _is_text,
    "framework_version": _is_text,
    "tool_version": _is_text,
    "started_at": _is_moment,
    "ended_at": _or_none(_is_moment),
    "world_size": _is_count,
    "nodes": _is_count,
    "launcher": _is_text,
    "part_of": _or_none(_is_name),
    "telemetry_status": _one_of("complete", "partial", "none", "unknown"),
    "guard": _or_none(lambda value: isinstance(value, dict)),
}
ENVIRONMENT: Final[Mapping[str, Check]] = {
    "python": _is_text,
    "torch": _or_none(_is_text),
    "cuda": _or_none(_is_text),
    "driver": _or_none(_is_text),
    "packages": _mapping_of(_is_text),
    "git_commit": _or_none(_is_text),
    "git_dirty": _or_none(lambda value: isinstance(value, bool)),
    "seeds": _mapping_of(_is_whole),
    "cpu": _or_none(_is_text),
    "flags": _mapping_of(_is_text),
}
TRAINING: Final[Mapping[str, Check]] = {
    "status": _one_of("completed", "incomplete"),
    "nodes_expected": _is_count,
    "nodes_observed": lambda value: type(value) is int and 0 <= value <= _MOST_RANKS,
    "reasons": lambda value: isinstance(value, list) and all(map(_is_name, value)),
}
NODE: Final[Mapping[str, Check]] = {
    "node_rank": lambda value: type(value) is int and 0 <= value <= _MOST_RANKS,
    "exit_code": _is_whole,
}
