"""The chart of the wall ledger: one bar an account."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from traintrace.accounts import BETWEEN_ACCOUNTS, NAMES
from traintrace_reporting import bars, layout
from traintrace_reporting.format import clean, dig, seconds

_BETWEEN: Final = frozenset(NAMES[number] for number in BETWEEN_ACCOUNTS)
_NAME, _TIME, _SHARE = 19, 11, 9


def wall_chart(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give the heading, a line for each account, and what the names mean."""
    wall = dig(summary, "wall")
    rows = bars.fold(dig(wall, "accounts_ns"))
    total = sum(ns for _, ns, _ in rows)
    if total <= 0:
        return
    rank = f"rank {clean(dig(wall, 'rank'))}, " if layout.has_ranks(summary) else ""
    note = f"{rank}{seconds(total / 1e9)} in all   █ in steps  ▒ between steps"
    yield layout.heading("Where the time went", note, width)
    blamed, colour_of_blame = bars.blamed(summary), layout.verdict_colour(summary)
    times = bars.durations([ns for _, ns, _ in rows])
    parts = bars.shares([ns for _, ns, _ in rows])
    bar_width = width - 2 - _NAME - 1 - _TIME - _SHARE
    longest, hidden = max(ns for _, ns, _ in rows), ""
    for (name, ns, folded), time, share in zip(rows, times, parts, strict=True):
        between = name in _BETWEEN
        colour = f"bold {colour_of_blame}" if name in blamed else "magenta" if between else "cyan"
        if folded:
            colour, bar = "dim", Text(folded)
            if bar.cell_len > bar_width:
                hidden, bar = folded, Text()
            bar.truncate(bar_width, pad=True)
        else:
            bar = Text(bars.bar(ns / longest, bar_width, "▒" if between else "█"))
        line = Text.assemble(
            "  ", f"{name:<{_NAME}} ", (bar.plain, colour), f"{time:>{_TIME}}{share:>{_SHARE}}"
        )
        line.stylize("bold" if name in blamed else "", 0, _NAME + 3)
        yield line
    yield from layout.remarks(bars.notes(summary, rows, hidden), width)
