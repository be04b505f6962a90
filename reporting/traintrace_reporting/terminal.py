"""The report in the terminal: the verdict first, then where every second went.

All text goes through `Text`, never through markup, so a run called "[red]" stays a name.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from traintrace.accounts import BETWEEN_ACCOUNTS, GROUPS, NAMES
from traintrace_reporting import bars, words
from traintrace_reporting import format as plain
from traintrace_reporting.format import clean, dig, finite, seconds, sentence

WIDEST: Final = 120
NARROWEST: Final = 40

_COLOURS: Final = {"critical": "red", "warning": "yellow", "info": "cyan"}
_OUTCOME_COLOURS: Final = {"balanced": "green", "insufficient_data": "blue", "cannot_tell": "blue"}
_STATUS_COLOURS: Final = {"completed": "green", "running": "blue"}
_COLUMNS: Final = ("median", "mean", "p95", "share", "slowest rank")
_DISPENSABLE: Final = ("p95", "slowest rank", "mean")  # given up in this order where room is short
_LABEL: Final = 20
_BETWEEN: Final = frozenset(NAMES[number] for number in BETWEEN_ACCOUNTS)


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
    folder: Path | None = None,
) -> None:
    """Print the report to `file`.

    Args:
        summary: What `final_summary.json` holds.
        file: Where to print.
        width: Columns; None for the terminal's width, at most 120.
        color: False prints without colours on a terminal too.
        folder: Where the run lies; it is named under its files.
    """
    console = console_for(file, width, color)
    console.print(render(summary, width or min(console.width, WIDEST)))
    if folder is not None:
        # Never wrapped: a path that is cut in two cannot be copied.
        place = plain.encodable(clean(str(folder), 4096), console.encoding)
        console.print(Text("in".ljust(17), "dim") + Text(place), soft_wrap=True)


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
    yield Text()
    yield _verdict(summary)
    for section in (_wall, _step_table, _findings):
        body = list(section(summary, width))
        if body:
            yield Text()
            yield from body
    yield Text()
    yield _facts(summary, width)


def _heading(title: str, note: str, width: int) -> Text:
    space = width - len(title) - len(note)
    between = " " * space if space > 1 else "\n"
    return Text.assemble((title, "bold"), between, (note, "dim"))


def _masthead(summary: Mapping[str, Any], width: int) -> Iterator[Text]:
    run = dig(summary, "run")
    status = clean(dig(run, "status"), 20) or "status unknown"
    colour = _STATUS_COLOURS.get(status, "red")
    name = Text.assemble("traintrace  ", (clean(dig(run, "name"), 60), "bold"))
    name.truncate(max(10, width - len(status) - 2), overflow="ellipsis")
    name.append(" " * max(1, width - name.cell_len - len(status)))
    name.append(status, f"bold {colour}")
    yield name
    yield Text(words.subtitle(summary), "dim")
    ending = words.ending(summary)
    if ending:
        yield Text(ending, f"bold {colour}")
    for note in words.absences(summary):
        yield Text(note, "yellow")


def _verdict_colour(verdict: object) -> str:
    outcome = clean(dig(verdict, "outcome"))
    severity = clean(dig(verdict, "severity"))
    return _OUTCOME_COLOURS.get(outcome) or _COLOURS.get(severity, "cyan")


def _verdict(summary: Mapping[str, Any]) -> Panel:
    verdict = dig(summary, "verdict")
    colour = _verdict_colour(verdict)
    told = _grid()
    for label, value, style in (
        ("Cost", words.cost(summary), ""),
        ("Gain", words.gain(dig(verdict, "gain")), ""),
        ("Why", sentence(dig(verdict, "why")), ""),
        ("Do", sentence(dig(verdict, "action")), "green"),
    ):
        if value:
            told.add_row(Text(label, "dim"), Text(value, style))
    headline = Text(sentence(dig(verdict, "headline")) or "No verdict.", "bold")
    title = Text(clean(dig(verdict, "kind"), 40) or "NO VERDICT", f"bold {colour}")
    body = Group(headline, told) if told.row_count else headline
    return Panel(body, title=title, title_align="left", border_style=colour, box=ROUNDED)


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))


def _wall(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    wall = dig(summary, "wall")
    rows = bars.fold(dig(wall, "accounts_ns"))
    total = sum(ns for _, ns, _ in rows)
    if total <= 0:
        return
    rank = f"rank {clean(dig(wall, 'rank'))}, " if _has_ranks(summary) else ""
    note = f"{rank}{seconds(total / 1e9)} in all   █ in steps  ▒ between steps"
    yield _heading("Where the time went", note, width)
    blamed, colour_of_blame = bars.blamed(summary), _verdict_colour(dig(summary, "verdict"))
    times = bars.durations([ns for _, ns, _ in rows])
    parts = bars.shares([ns for _, ns, _ in rows])
    bar_width = width - 2 - 19 - 1 - 11 - 9
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
        line = Text.assemble("  ", f"{name:<19} ", (bar.plain, colour), f"{time:>11}{share:>9}")
        line.stylize("bold" if name in blamed else "", 0, 22)
        yield line
    yield from _remarks(bars.notes(summary, rows, hidden), width)


def _remarks(text: str, width: int) -> Iterator[RenderableType]:
    """Give a remark in grey, indented, broken between its parts where it can be."""
    if text:
        yield Padding.indent(Text(plain.wrapped(text, width - 2), "dim"), 2)


def _step_table(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    metrics = dig(summary, "step_time", "metrics")
    scale = finite(dig(metrics, "step_time", "median"))
    if not isinstance(metrics, Mapping) or scale is None:
        return
    yield _heading("One step", words.window(summary), width)
    rows = {name: _measured(metrics.get(name), scale) for name in plain.STEP_ROWS}
    heads = [head for head in _COLUMNS if head != "slowest rank" or _has_ranks(summary)]
    for dispensable in _DISPENSABLE:
        if not _fits(heads, rows.values(), width) and dispensable in heads:
            heads.remove(dispensable)
    yield _cells("milliseconds", heads, width, "dim")
    for name, cells in rows.items():
        if cells:
            chosen = [cells[head] for head in heads]
            yield _cells(name, chosen, width, "bold" if name == "step_time" else "")
        elif _has_ranks(summary) or name != "gradient_sync":
            missing = words.why_missing(summary, name)
            yield Text.assemble(f"  {name:<18}", (missing, "dim"))
    if rows["residual"]:
        yield from _remarks(f"residual: {' + '.join(GROUPS['residual'])}", width)


def _fits(heads: Sequence[str], rows: Iterable[Mapping[str, str]], width: int) -> bool:
    """Tell whether the columns keep two blanks between each other."""
    texts = [*heads, *(cells[head] for cells in rows if cells for head in heads)]
    return max(map(len, texts)) + 2 <= (width - _LABEL) // len(heads)


def _measured(metric: object, scale: float) -> dict[str, str]:
    """Give a cell for each of `_COLUMNS`; nothing if the metric was not measured."""
    if finite(dig(metric, "median")) is None:
        return {}
    cells = {key: plain.milliseconds(dig(metric, key), scale) for key in ("median", "mean", "p95")}
    share, worst = finite(dig(metric, "share")), finite(dig(metric, "worst"))
    rank = clean(dig(metric, "worst_rank"), 5)
    cells["share"] = "-" if share is None else plain.percent(share)
    cells["slowest rank"] = "-" if worst is None else f"{plain.milliseconds(worst, scale)} ({rank})"
    return cells


def _cells(name: str, cells: Sequence[str], width: int, style: str) -> Text:
    cell = (width - _LABEL) // len(cells)
    label = f"  {name}".ljust(width - cell * len(cells))
    return Text(label + "".join(text.rjust(cell) for text in cells), style)


def _has_ranks(summary: Mapping[str, Any]) -> bool:
    return (finite(dig(summary, "run", "world_size")) or 1) > 1


def _findings(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    found = dig(summary, "findings")
    others = list(found) if isinstance(found, list) else []
    kinds = [dig(entry, "kind") for entry in others]
    if dig(summary, "verdict", "kind") in kinds:
        del others[kinds.index(dig(summary, "verdict", "kind"))]
    if not others:
        return
    yield _heading("Also found", "", width)
    table = _grid()
    for entry in others:
        cost_s, noted = finite(dig(entry, "cost_s")), dig(entry, "severity") == "info"
        price = Text("" if cost_s is None or noted else seconds(cost_s), justify="right")
        colour = _COLOURS.get(clean(dig(entry, "severity")), "cyan")
        kind = Text.assemble("  ", (clean(dig(entry, "kind"), 24), colour))
        table.add_row(kind, price, Text(sentence(dig(entry, "headline"))))
    yield table


def _facts(summary: Mapping[str, Any], width: int) -> Table:
    table = _grid()
    artifacts = dig(summary, "artifacts")
    paths = artifacts.values() if isinstance(artifacts, Mapping) else ()
    for label, value in (
        ("Throughput", words.throughput(summary)),
        ("Set-up", words.setup(summary)),
        ("Tracing cost", words.tracing(summary)),
        *words.checks(summary),
        *(("Warning", warning) for warning in words.warnings(summary)),
        ("Files", ", ".join(clean(path) for path in paths if path)),
    ):
        if value:
            style = "yellow" if label == "Warning" else "dim"
            table.add_row(
                Text(clean(label, 15).ljust(15), style), Text(plain.wrapped(value, width - 17))
            )
    return table
