"""The tables of the report: one step, and the ranks against each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from traintrace.accounts import GROUPS
from traintrace_reporting import format as plain
from traintrace_reporting import layout, words
from traintrace_reporting.format import clean, dig, finite

_COLUMNS: Final = ("median", "mean", "p95", "share", "most (rank)")
_DISPENSABLE: Final = ("p95", "most (rank)", "mean")  # given up in this order where room is short
_LABEL: Final = 20
_RANK_LABEL: Final = 12
_RANK_COLUMNS: Final = ("own work", "waiting", "above median", "comes last")
_RANKS_SHOWN: Final = 4


def step_table(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give what one step consists of, in milliseconds."""
    metrics = dig(summary, "step_time", "metrics")
    scale = finite(dig(metrics, "step_time", "median"))
    if not isinstance(metrics, Mapping) or scale is None:
        return
    yield layout.heading("One step", words.window(summary), width)
    rows = {name: _measured(metrics.get(name), scale) for name in plain.STEP_ROWS}
    several = layout.has_ranks(summary)
    heads = [head for head in _COLUMNS if head != "most (rank)" or several]
    for dispensable in _DISPENSABLE:
        if not _fits(heads, rows.values(), width) and dispensable in heads:
            heads.remove(dispensable)
    yield _cells("milliseconds", heads, width, "dim")
    for name, cells in rows.items():
        if cells:
            chosen = [cells[head] for head in heads]
            yield _cells(name, chosen, width, "bold" if name == "step_time" else "")
        elif several or name != "gradient_sync":
            yield layout.labelled(f"  {name}", words.why_missing(summary, name), width, _LABEL)
    if rows["residual"]:
        negative = (finite(dig(metrics, "residual", "mean")) or 0.0) < 0.0
        overlap = "below 0: waits overlap the device's work" if negative else ""
        parts = f"residual: {' + '.join(GROUPS['residual'])}"
        yield from layout.remarks(plain.joined((parts, overlap)), width)


def _fits(
    heads: Sequence[str], rows: Iterable[Mapping[str, str]], width: int, label: int = _LABEL
) -> bool:
    """Tell whether the columns keep two blanks between each other."""
    texts = [*heads, *(cells[head] for cells in rows if cells for head in heads)]
    return max(map(len, texts)) + 2 <= (width - label) // len(heads)


def _measured(metric: object, scale: float) -> dict[str, str]:
    """Give a cell for each of `_COLUMNS`; nothing if the metric was not measured."""
    if finite(dig(metric, "median")) is None:
        return {}
    cells = {key: plain.milliseconds(dig(metric, key), scale) for key in ("median", "mean", "p95")}
    share, worst = finite(dig(metric, "share")), finite(dig(metric, "worst"))
    rank = clean(dig(metric, "worst_rank"), 5)
    cells["share"] = "-" if share is None else plain.percent(share)
    cells["most (rank)"] = "-" if worst is None else f"{plain.milliseconds(worst, scale)} ({rank})"
    return cells


def ranks_table(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give the ranks with most work of their own, and why ranks are not compared."""
    if not layout.has_ranks(summary) or not dig(summary, "run", "ranks_seen"):
        return
    compared = dig(summary, "ranks")
    by_rank = dig(compared, "by_rank")
    found = [
        (clean(rank, 8), work)
        for rank, work in (by_rank.items() if isinstance(by_rank, Mapping) else ())
        if finite(dig(work, "own_ms")) is not None
    ]
    if not found:
        reason = words.why_missing(summary, "section.ranks").removeprefix("not measured: ")
        yield layout.labelled("Ranks", f"not compared ({reason})", width, 17)
        return
    found.sort(key=lambda entry: -(finite(dig(entry[1], "own_ms")) or 0.0))
    shown = found
    if len(found) > _RANKS_SHOWN:  # those with most, and the one with least to compare them with
        shown = [*found[: _RANKS_SHOWN - 1], found[-1]]
    yield layout.heading("Ranks", words.ranks_note(compared, len(shown), len(found)), width)
    scale = finite(dig(found[0][1], "own_ms")) or 1.0
    rows = {f"rank {rank}": _rank_cells(work, scale) for rank, work in shown}
    heads = [head for head in _RANK_COLUMNS if {row[head] for row in rows.values()} != {"-"}]
    while len(heads) > 1 and not _fits(heads, rows.values(), width, _RANK_LABEL):
        heads.pop()
    yield _cells("milliseconds", heads, width, "dim", _RANK_LABEL)
    for name, cells in rows.items():
        yield _cells(name, [cells[head] for head in heads], width, "", _RANK_LABEL)
    yield from layout.remarks(words.ranks_remarks(compared), width)


def _rank_cells(work: object, scale: float) -> dict[str, str]:
    last = finite(dig(work, "last_share"))
    return {
        "own work": plain.milliseconds(dig(work, "own_ms"), scale),
        "waiting": plain.milliseconds(dig(work, "waiting_ms"), scale),
        "above median": _excess(dig(work, "excess_ms"), dig(work, "excess_share"), scale),
        "comes last": "-" if last is None else plain.percent(last),
    }


def _excess(excess_ms: object, share: object, scale: float) -> str:
    """Give "+60.0 (38 %)"; "0" for what the table cannot show."""
    excess, part = finite(excess_ms), finite(share)
    text = plain.milliseconds(excess, scale)
    if excess is None or excess == 0.0 or "<" in text:
        return "-" if excess is None else "0"
    sign = "+" if excess > 0.0 else ""
    if part is None:
        return sign + text
    return f"{sign}{text} ({100.0 * part:.{0 if abs(part) >= 0.0995 else 1}f} %)"


def _cells(
    name: str, cells: Sequence[str], width: int, style: str, label_width: int = _LABEL
) -> Text:
    cell = (width - label_width) // len(cells)
    label = f"  {name}".ljust(width - cell * len(cells))
    return Text(label + "".join(text.rjust(cell) for text in cells), style)
