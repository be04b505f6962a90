"""The pieces that every part of the printed report is built from."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traintrace_reporting import format as plain
from traintrace_reporting.format import clean, dig, finite

SEVERITY_COLOURS: Final = {"critical": "red", "warning": "yellow", "info": "cyan"}
_OUTCOME_COLOURS: Final = {"balanced": "green", "insufficient_data": "blue", "cannot_tell": "blue"}


def verdict_colour(summary: Mapping[str, Any]) -> str:
    """Give the colour of the verdict, and of what it blames."""
    verdict = dig(summary, "verdict")
    outcome, severity = clean(dig(verdict, "outcome")), clean(dig(verdict, "severity"))
    return _OUTCOME_COLOURS.get(outcome) or SEVERITY_COLOURS.get(severity, "cyan")


def has_ranks(summary: Mapping[str, Any]) -> bool:
    """Tell whether several ranks train."""
    return (finite(dig(summary, "run", "world_size")) or 1) > 1


def grid() -> Table:
    """Give an empty table without lines."""
    return Table.grid(padding=(0, 2, 0, 0))


def heading(title: str, note: str, width: int) -> Text:
    """Give a section's title, with a note at the right or on a line of its own."""
    space = width - len(title) - len(note)
    between = " " * space if space > 1 else "\n"
    return Text.assemble((title, "bold"), between, (note, "dim"))


def remarks(text: str, width: int) -> Iterator[RenderableType]:
    """Give a remark in grey, indented, broken between its parts where it can be."""
    if text:
        yield Padding.indent(Text(plain.wrapped(text, width - 2), "dim"), 2)


def labelled(label: str, text: str, width: int, label_width: int) -> Text:
    """Give a label with grey text behind it; further lines begin where the first one does."""
    lines = plain.filled(text, max(10, width - label_width)).split("\n")
    told = ("\n" + " " * label_width).join(lines)
    return Text.assemble(label.ljust(label_width), (told, "dim"))
