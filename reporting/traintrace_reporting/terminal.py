"""The report in the terminal: the verdict first, then where every second went.

All text goes through `Text`, never through markup, so a run called "[red]" stays a name.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from traintrace_reporting import format as plain
from traintrace_reporting import layout, machine_words, run_words, watch_words, words
from traintrace_reporting.format import clean, dig, finite, seconds, sentence
from traintrace_reporting.lenses import (
    communication_rows,
    convergence_rows,
    efficiency_rows,
    stages_rows,
)
from traintrace_reporting.tables import ranks_table, step_table
from traintrace_reporting.wall_chart import wall_chart

WIDEST: Final = 120
NARROWEST: Final = 40

_STATUS_COLOURS: Final = {"completed": "green", "running": "blue"}
_LABEL: Final = 17
_FRAME: Final = 4  # columns that the frame of the verdict takes

# The parts of the page between the verdict and the other findings; each is empty where there is nothing to say.
_TIME: Final = (wall_chart, step_table, ranks_table)
_LENSES: Final = (
    efficiency_rows.rows,
    communication_rows.rows,
    stages_rows.rows,
    convergence_rows.rows,
)


@dataclass(frozen=True, slots=True)
class Report:
    """One summary as a Rich renderable; it keeps to `width` and to the console's encoding."""

    summary: Mapping[str, Any]
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the report's segments, in characters that the console can encode."""
        width = max(NARROWEST, min(self.width, options.max_width))
        page = Group(*_page(self.summary, width))
        for text, style, control in console.render(page, options.update(width=width)):
            yield Segment(plain.encodable(text, console.encoding), style, control)


def render(summary: Mapping[str, Any], width: int) -> RenderableType:
    """Give the report of one summary, at most `width` columns wide (never below 40)."""
    return Report(summary, width)


def print_report(
    summary: Mapping[str, Any],
    *,
    file: TextIO,
    width: int | None = None,
    color: bool = True,
    folder: Path | str | None = None,
) -> None:
    """Print the report to `file`.

    Args:
        summary: What `final_summary.json` holds.
        file: Where to print.
        width: Columns; None for the terminal's width, at most 120.
        color: False prints without colours on a terminal too.
        folder: Path or URL where the run lies; it is named under its files.
    """
    console = console_for(file, width, color)
    console.print(render(summary, width or min(console.width, WIDEST)))
    if folder is not None:
        # Never wrapped: a path that is cut in two cannot be copied.
        place = plain.encodable(clean(str(folder), 4096), console.encoding)
        console.print(Text("in".ljust(_LABEL), "dim") + Text(place), soft_wrap=True)


def console_for(file: TextIO, width: int | None = None, color: bool = True) -> Console:
    """Make a console that uses colours only on a terminal, with `color`, and without NO_COLOR.

    Without colours the output holds no escape code at all, bold included.
    """
    bare = not color or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=file, width=width, color_system=None if bare else "auto", force_jupyter=False
    )


def _page(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    yield from _masthead(summary, width)
    watched = watch_words.is_watched(summary)
    if not watched:
        yield Text()
        yield _verdict(summary, width)
    for section in (_findings,) if watched else (*_TIME, *_LENSES, _findings):
        body = list(section(summary, width))
        if body:
            yield Text()
            yield from body
    yield Text()
    yield _facts(summary, width)


def _masthead(summary: Mapping[str, Any], width: int) -> Iterator[Text]:
    run = dig(summary, "run")
    status = clean(dig(run, "status"), 20) or "status unknown"
    colour = _STATUS_COLOURS.get(status, "red")
    name = Text.assemble("traintrace  ", (clean(dig(run, "name"), 60), "bold"))
    name.truncate(max(10, width - len(status) - 2), overflow="ellipsis")
    name.append(" " * max(1, width - name.cell_len - len(status)))
    name.append(status, f"bold {colour}")
    yield name
    yield Text(run_words.subtitle(summary), "dim")
    ending = run_words.ending(summary)
    if ending:
        yield Text(ending, f"bold {colour}")
    for note in run_words.absences(summary):
        yield Text(note, "yellow")


def _verdict(summary: Mapping[str, Any], width: int) -> Panel:
    verdict = dig(summary, "verdict")
    colour = layout.verdict_colour(summary)
    told = layout.grid()
    for label, value, style in (
        ("Cost", words.cost(summary), ""),
        ("Gain", words.gain(dig(verdict, "gain")), ""),
        ("Why", sentence(dig(verdict, "why")), ""),
        ("Do", sentence(dig(verdict, "action")), "green"),
    ):
        if value:
            lines = plain.filled(value, width - _FRAME - len("Cost  "))
            told.add_row(Text(label.ljust(4), "dim"), Text(lines, style))
    headline = Text(
        plain.filled(sentence(dig(verdict, "headline")) or "No verdict.", width - _FRAME), "bold"
    )
    title = Text(clean(dig(verdict, "kind"), 40) or "NO VERDICT", f"bold {colour}")
    body = Group(headline, told) if told.row_count else headline
    return Panel(body, title=title, title_align="left", border_style=colour, box=ROUNDED)


def _findings(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    found = dig(summary, "findings")
    others = list(found) if isinstance(found, list) else []
    kinds = [dig(entry, "kind") for entry in others]
    if dig(summary, "verdict", "kind") in kinds:
        del others[kinds.index(dig(summary, "verdict", "kind"))]
    if not others:
        return
    yield layout.heading("Also found", "seconds lost, how sure", width)
    table = layout.grid()
    for entry in others:
        severity = clean(dig(entry, "severity"))
        cost_s, sure = finite(dig(entry, "cost_s")), finite(dig(entry, "confidence"))
        price = "info" if severity == "info" else seconds(cost_s) if cost_s else "-"
        colour = layout.SEVERITY_COLOURS.get(severity, "cyan")
        table.add_row(
            Text.assemble("  ", (clean(dig(entry, "kind"), 24), colour)),
            Text(price, justify="right"),
            Text("" if sure is None else f"{100 * sure:.0f} %", justify="right"),
            Text(sentence(dig(entry, "headline"))),
        )
    yield table


def _facts(summary: Mapping[str, Any], width: int) -> Table:
    table = layout.grid()
    artifacts = dig(summary, "artifacts")
    paths = artifacts.values() if isinstance(artifacts, Mapping) else ()
    told: tuple[tuple[str, str], ...]
    if watch_words.is_watched(summary):
        told = watch_words.rows(summary)
    else:
        told = (
            ("Throughput", run_words.throughput(summary)),
            ("Set-up", run_words.setup(summary)),
            ("Memory", machine_words.memory(summary)),
            ("Machine", machine_words.machine(summary)),
            ("Guard", run_words.guard(summary)),
            ("Tracing cost", run_words.tracing(summary)),
            *words.checks(summary),
        )
    for label, value in (
        *told,
        *(("Warning", warning) for warning in run_words.warnings(summary)),
        ("Files", ", ".join(clean(path) for path in paths if path)),
    ):
        if value:
            style = "yellow" if label == "Warning" else "dim"
            name = clean(label, _LABEL - 2).ljust(_LABEL - 2)
            table.add_row(Text(name, style), Text(plain.wrapped(value, width - _LABEL)))
    return table
