"""Numbers and names as people read them: plain strings, no layout and no colour.

None, NaN and infinity all mean "not measured" here, and no function prints them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

NOT_MEASURED: Final = "not measured"
STEP_ROWS: Final = tuple(
    "step_time input_wait h2d forward backward gradient_sync optimizer residual".split()
)
# The accounts that a verdict is about, to be drawn in its colour.
BLAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "INPUT_BOUND": ("input_wait",),
    "H2D_BOUND": ("h2d",),
    "COMPUTE_BOUND": ("forward", "backward", "optimizer"),
    "RESIDUAL_HEAVY": ("batch_prep", "communication", "clip", "callbacks", "user", "other"),
    "OPTIMIZER_HEAVY": ("optimizer",),
    "BACKWARD_HEAVY": ("backward",),
    "EPOCH_START_COST": ("epoch_boundary",),
    "EVALUATION_COST": ("evaluation",),
    "CHECKPOINT_COST": ("checkpoint",),
    "LOGGING_COST": ("logging",),
    "GAP": ("gap",),
    "COMM_BOUND": ("communication", "gradient_sync"),
    "EXPOSED_COMM": ("communication", "gradient_sync"),
}
_SMALL: Final = 0.005
_MOST_BARS: Final = 12
_EIGHTHS: Final = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
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
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?:" else ".")


def number(value: object) -> str:
    """Give three significant digits, with thousands separated: 0.0412, 4.12, 41.2, 4,120."""
    found = finite(value)
    if found is None:
        return NOT_MEASURED
    if found == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(found)))
    rounded = round(found, digits)
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def count(value: object, noun: str) -> str:
    """Give "1 step", "1,204 steps", or "steps not measured"."""
    found = finite(value)
    if found is None:
        return f"{noun}s {NOT_MEASURED}"
    return f"{found:,.0f} {noun}" if found == 1 else f"{found:,.0f} {noun}s"


def seconds(value: object) -> str:
    """Give a length of time in the unit that suits it, from "31 us" to "3 h 12 min"."""
    found = finite(value)
    if found is None:
        return NOT_MEASURED
    size = abs(found)
    if size == 0:
        return "0 s"
    if size < 0.000_999_5:
        return f"{number(found * 1e6)} us"
    if size < 0.999_5:
        return f"{number(found * 1e3)} ms"
    if size < 99.95:
        return f"{number(found)} s"
    whole = round(found)
    if size < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(found / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def percent(fraction: object) -> str:
    """Give a fraction as per cent: "41.2 %", "0.04 %", "<0.01 %"."""
    found = finite(fraction)
    if found is None:
        return NOT_MEASURED
    value = 100 * found
    if 0 < value < 0.01:
        return "<0.01 %"
    return f"{value:.2f} %" if 0 < value < 0.1 else f"{value:.1f} %"


def moment(unix_seconds: object) -> str:
    """Give a moment as "2026-03-02 14:05 UTC", or an empty string."""
    found = finite(unix_seconds)
    if found is None:
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
    """Break lines between the parts that `joined` joined, so that a number keeps its unit."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("")
        for part in line.split(" · "):
            longer = joined((lines[-1], part))
            if len(longer) > width and lines[-1]:
                lines.append(part)
            else:
                lines[-1] = longer
    return "\n".join(lines)


def apportion(values: Sequence[int], units: int) -> list[int]:
    """Share out `units` in proportion to `values`, so that the parts add to `units` exactly.

    The method is that of the largest remainder; among equals the earlier one wins.
    """
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    parts = [value * units // total for value in values]
    remainders = [value * units % total for value in values]
    order = sorted(range(len(values)), key=lambda index: (-remainders[index], index))
    for index in order[: units - sum(parts)]:
        parts[index] += 1
    return parts


def shares(values: Sequence[int]) -> list[str]:
    """Give each value's share of their sum, rounded so that the printed shares add to 100.0 %."""
    return [f"{part // 10}.{part % 10} %" for part in apportion(values, 1000)]


def durations(nanoseconds: Sequence[int]) -> list[str]:
    """Give a column of times in one unit, rounded so that they add to their printed sum."""
    total = sum(nanoseconds)
    if total < 1_000_000_000:
        return [f"{part / 100:.2f} ms" for part in apportion(nanoseconds, round(total / 10_000))]
    if total < 100_000_000_000:
        return [f"{part / 100:.2f} s" for part in apportion(nanoseconds, round(total / 10_000_000))]
    if total < 1_000_000_000_000:
        return [f"{part / 10:.1f} s" for part in apportion(nanoseconds, round(total / 100_000_000))]
    parts = apportion(nanoseconds, round(total / 1_000_000_000))
    return [f"{part // 3600}:{part // 60 % 60:02d}:{part % 60:02d}" for part in parts]


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


def fold(accounts: object) -> list[tuple[str, int, str]]:
    """Give (name, nanoseconds, names folded into it) by time, the small ones as one row at the end.

    Args:
        accounts: Nanoseconds by account; anything else gives no rows.
    """
    if not isinstance(accounts, Mapping):
        return []
    found = [(clean(name, 19), int(finite(ns) or 0)) for name, ns in accounts.items()]
    ordered = sorted(found, key=lambda row: (-row[1], row[0]))
    total = sum(ns for _, ns in ordered)
    large = [row for row in ordered[:_MOST_BARS] if row[1] >= _SMALL * total]
    small = ordered[len(large) :]
    if len(small) == 1:
        large, small = ordered, []
    rows = [(name, ns, "") for name, ns in large]
    if small:
        names = ", ".join(name for name, _ in small)
        rows.append((f"{len(small)} smaller accounts", sum(ns for _, ns in small), names))
    return rows


def bar(fraction: float, width: int, texture: str = "█") -> str:
    """Give a bar of `width` characters, filled to `fraction`; whatever is above 0 shows a sliver."""
    eighths = max(1, round(fraction * width * 8)) if fraction > 0 else 0
    if texture == "█":
        return (texture * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(width)
    return (texture * round(eighths / 8) or _EIGHTHS[min(eighths, 4)]).ljust(width)


def encodable(text: str, encoding: str) -> str:
    """Give text of the same length that `encoding` can write; ASCII drawing outside Unicode."""
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
