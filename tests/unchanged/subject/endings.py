"""How a training ended: the exception as the user meets it."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unchanged.subject.patches import OURS


def describe(error: BaseException) -> list[dict[str, Any]]:
    """Give the exception and those that led to it, the newest first."""
    return [
        {
            "type": type(each).__qualname__,
            "arguments": repr(each.args),
            "notes": getattr(each, "__notes__", []),
            "hides its context": each.__suppress_context__,
            "frames": _frames(each),
        }
        for each in _chain(error)
    ]


def forget_frames(error: BaseException) -> None:
    """Let go of the frames, which hold what trained."""
    for each in list(_chain(error)):
        each.__traceback__ = None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _frames(error: BaseException) -> list[tuple[str, str]]:
    """Give file and function of each frame, outermost first."""
    summary = traceback.extract_tb(error.__traceback__)
    return [(_short(frame.filename), frame.name) for frame in summary]


def _short(file: str) -> str:
    """Give a file's path from its package on."""
    parts = Path(file).parts
    starts = [i for i, part in enumerate(parts) if part in ("tests", "site-packages")]
    starts += [i for i, part in enumerate(parts) if part.startswith(OURS)]
    return "/".join(parts[max(starts, default=0) :])
