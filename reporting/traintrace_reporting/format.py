"""Numbers and names as people read them: plain strings, no layout and no colour.

None, NaN and infinity all mean "not measured" here, and no function prints them.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from traintrace_analysis import wording

NOT_MEASURED: Final = "not measured"
STEP_ROWS: Final = tuple(
    "step_time input_wait h2d forward backward gradient_sync optimizer residual".split()
)
# A number and the unit behind it, which no line break may part.
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[kMGT]?B|[num]?s|us|min|h|W|MHz|degrees)\b|%)")
_GLUE: Final = "\N{WORD JOINER}"
_ASCII: Final = str.maketrans("▏▎▍▌▋▊▉█▒·…─│╭╮╰╯", "   #####=-.-|++++")


def dig(tree: object, *keys: str) -> Any:
    """Give `tree[key][key]...`, or None where a key is missing on the way."""
    for key in keys:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    return tree


def finite(value: object) -> float | None:
    """Give a number as a float; None for anything that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def clean(value: object, limit: int | None = None) -> str:
    """Give a string that cannot disturb a terminal: no control characters, one line.

    Args:
        value: What to print. None gives an empty string.
        limit: Longest result in characters; the end of a longer one becomes an ellipsis.
    """
    if value is None:
        return ""
    raw = " ".join(str(value).split())
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in raw)
    if limit is not None and len(text) > limit:
        return text[: limit - 1] + "…"
    return text


def sentence(value: object) -> str:
    """Give `value` cleaned, with a capital first and one full stop last, or an empty string."""
    text = clean(value)
    if not text:
        return ""
    # The name of a function or a metric keeps its spelling: "torch.compile goes on compiling".
    first = text.split(" ", 1)[0].rstrip(".,:;")
    start = text[0] if re.search(r"[._(]", first) else text[0].upper()
    return start + text[1:] + ("" if text[-1] in ".!?:" else ".")


def number(value: object) -> str:
    """Give three significant digits, as `wording.number` writes them."""
    return _written(wording.number, value)


def count(value: object, noun: str) -> str:
    """Give "1 step", "1,204 steps", or "steps not measured"."""
    found = finite(value)
    return f"{noun}s {NOT_MEASURED}" if found is None else wording.count(found, noun)


def seconds(value: object) -> str:
    """Give a length of time in the unit that suits it, as `wording.seconds` writes it."""
    return _written(wording.seconds, value)


def percent(fraction: object) -> str:
    """Give a fraction as per cent for a table, as `wording.exact_percent` writes it."""
    return _written(wording.exact_percent, fraction)


def _written(write: Callable[[float], str], value: object) -> str:
    found = finite(value)
    return NOT_MEASURED if found is None else write(found)


def moment(unix_seconds: object) -> str:
    """Give a moment as "2026-03-02 14:05 UTC", or an empty string."""
    found = finite(unix_seconds)
    if found is None or found <= 0:  # the start of a run that left no record is 0
        return ""
    try:
        at = datetime.fromtimestamp(found, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return ""
    return at.strftime("%Y-%m-%d %H:%M UTC")


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """Join the parts that are not empty."""
    return separator.join(part for part in parts if part)


def wrapped(text: str, width: int) -> str:
    """Break lines between the parts that `joined` joined; a part that is too long between words."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("")
        for part in line.split(" · "):
            longer = joined((lines[-1], part))
            if len(longer) > width and lines[-1]:
                lines.append(part)
            else:
                lines[-1] = longer
    return "\n".join(filled(line, width) if len(line) > width else line for line in lines)


def filled(text: str, width: int) -> str:
    """Break text into lines between words, so that a number keeps its unit."""
    glued = _UNIT.sub(_GLUE, text)
    lines = textwrap.wrap(glued, max(10, width), break_on_hyphens=False)
    return "\n".join(lines).replace(_GLUE, " ")


def milliseconds(value: object, scale: float) -> str:
    """Give one cell of a table of milliseconds, with decimals that suit the table.

    Args:
        value: Milliseconds.
        scale: The table's largest typical value in milliseconds; it settles the decimals.
    """
    found = finite(value)
    if found is None:
        return "-"
    decimals = 3 if scale < 10 else 2 if scale < 100 else 1 if scale < 10_000 else 0
    smallest = 10.0**-decimals
    if 0 < abs(found) < smallest / 2:
        return f"<{smallest:.{decimals}f}"
    return "0" if found == 0 else f"{found:,.{decimals}f}"


def encodable(text: str, encoding: str) -> str:
    """Give text of the same length that `encoding` can write; ASCII drawing outside Unicode."""
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
