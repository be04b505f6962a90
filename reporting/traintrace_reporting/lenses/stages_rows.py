"""The report's lines on pipelines: stages, queues, the one that limits, and what a change would win."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from traintrace_analysis import wording
from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite

_STAGE_HEADS: Final = ("workers", "busy", "starved", "blocked", "items/s", "ms/item")
_STAGE_DISPENSABLE: Final = ("blocked", "workers", "starved")
_QUEUE_HEADS: Final = ("holds", "mean", "full", "empty", "ms in")
_QUEUE_DISPENSABLE: Final = ("ms in", "mean")
_CELL: Final = 9
_SHOWN: Final = 12
_ANSWERS: Final = 5


def rows(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give the pipeline as lines; nothing if there is none."""
    lens = dig(summary, "stages")
    stages = _listed(dig(lens, "stages"))
    if not stages:
        return
    yield layout.heading("Pipeline", _note(lens, stages), width)
    limiting = clean(dig(lens, "limiting", "stage"))
    yield from _table(
        "stage", _STAGE_HEADS, _STAGE_DISPENSABLE, stages, _stage_cells, width, limiting
    )
    queues = _listed(dig(lens, "queues"))
    if queues:
        yield from _table("queue", _QUEUE_HEADS, _QUEUE_DISPENSABLE, queues, _queue_cells, width)
    yield from layout.remarks(_limit(lens), width)
    yield from layout.remarks(_answers(lens), width)
    for doubt in _doubts(lens, stages, queues):
        yield from layout.remarks(doubt, width)


def _listed(value: object) -> list[Mapping[str, Any]]:
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _note(lens: object, stages: Sequence[Mapping[str, Any]]) -> str:
    last = clean(dig(lens, "last_stage"), 24)
    load = next((one for one in stages if clean(one.get("name"), 24) == last), None)
    rate = finite(dig(load, "items_per_s"))
    return "" if rate is None or not last else f"{plain.number(rate)} items/s leave {last}"


def _table(
    title: str,
    heads: Sequence[str],
    dispensable: Sequence[str],
    entries: Sequence[Mapping[str, Any]],
    cells_of: Any,
    width: int,
    marked: str = "",
) -> Iterator[RenderableType]:
    """Give a table; columns are given up in order where the names would have fewer than 12 characters."""
    kept = list(heads)
    for one in dispensable:
        if width - _CELL * len(kept) < 16:
            kept.remove(one)
    label = max(12, width - _CELL * len(kept))
    yield _line(title, kept, label, "dim")
    for entry in entries[:_SHOWN]:
        name, cells = clean(entry.get("name")), cells_of(entry)
        style = "bold" if marked and name == marked else ""
        yield _line(clean(name, label - 3), [cells[head] for head in kept], label, style)
    if len(entries) > _SHOWN:
        yield from layout.remarks(f"and {len(entries) - _SHOWN} more", width)


def _line(name: str, cells: Sequence[str], label: int, style: str) -> Text:
    return Text(f"  {name}".ljust(label) + "".join(cell.rjust(_CELL) for cell in cells), style)


def _share(value: object) -> str:
    share = finite(value)
    return "-" if share is None else f"{100.0 * share:.0f} %"


def _number(value: object) -> str:
    found = finite(value)
    if found is None:
        return "-"
    return "<0.001" if 0.0 < found < 0.001 else plain.number(found)


def _stage_cells(one: Mapping[str, Any]) -> dict[str, str]:
    workers = finite(one.get("workers"))
    return {
        "workers": "-" if workers is None else f"{workers:.0f}",
        "busy": _share(one.get("busy_share")),
        "starved": _share(one.get("starved_share")),
        "blocked": _share(one.get("blocked_share")),
        "items/s": _number(one.get("items_per_s")),
        "ms/item": _number(one.get("demand_ms")),
    }


def _queue_cells(one: Mapping[str, Any]) -> dict[str, str]:
    capacity = finite(one.get("capacity"))
    return {
        "holds": "any" if capacity is None else f"{capacity:,.0f}",
        "mean": _number(one.get("mean_items")),
        "full": _share(one.get("full_share")),
        "empty": _share(one.get("empty_share")),
        "ms in": _number(one.get("residence_ms")),
    }


def _limit(lens: object) -> str:
    """Say which stage limits, and what agrees with that."""
    found = dig(lens, "limiting")
    stage = clean(dig(found, "stage"), 24)
    if not stage:
        why = clean(dig(lens, "not_separable"))
        return f"which stage limits: {why}" if why else ""
    sure = finite(dig(found, "confidence"))
    parts = [f"limited by {stage}" + ("" if sure is None else f" ({wording.percent(sure)} sure)")]
    lead, following = finite(dig(found, "lead")), clean(dig(found, "next_stage"), 24)
    if lead is not None and following:
        parts.append(f"{wording.percent(lead)} more per item than {following}")
    balanced = dig(found, "balanced")
    if isinstance(balanced, Sequence) and not isinstance(balanced, str) and balanced:
        parts.append(f"{wording.listed([clean(name, 24) for name in balanced])} are balanced")
    if dig(found, "is_last") is True:
        parts.append("the last stage, so all others keep up")
    if dig(found, "waits_agree") is not None:
        agree = "agree" if dig(found, "waits_agree") is True else "do not all agree"
        parts.append(f"waits {agree}")
    return plain.joined(parts)


def _answers(lens: object) -> str:
    """Say what the changes that win most would win."""
    withheld = clean(dig(lens, "withheld"))
    if withheld:
        return f"what if: {withheld}"
    # The last stage is mostly the training loop, of which there is one.
    last = dig(lens, "last_stage")
    found = [
        one
        for one in _listed(dig(lens, "what_ifs"))
        if one.get("change") != "to_next"
        and not (one.get("change") == "worker" and one.get("target") == last)
    ]
    winning = [one for one in found if (finite(one.get("speedup")) or 0.0) >= 1.01]
    if not winning:
        return "what if: no single change wins 1 %" if found else ""
    winning.sort(key=lambda one: -(finite(one.get("speedup")) or 0.0))
    return "what if: " + plain.joined(_answer(one) for one in winning[:_ANSWERS])


def _answer(one: Mapping[str, Any]) -> str:
    target, amount = clean(one.get("target"), 24), finite(one.get("amount")) or 0.0
    change = {
        "faster": f"{target} {100.0 * amount:.0f} % faster",
        "worker": f"{target} one more worker",
        "buffer": f"{target} holds {amount:,.0f}",
    }.get(clean(one.get("change")), target)
    return f"{change} +{wording.percent((finite(one.get('speedup')) or 1.0) - 1.0)}"


def _doubts(
    lens: object, stages: Sequence[Mapping[str, Any]], queues: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Give what makes the numbers above less sure."""
    kind = clean(dig(lens, "contention", "kind"))
    busy, cores = (
        plain.number(dig(lens, "contention", name)) for name in ("busy_workers", "cores")
    )
    if kind == "cores":
        yield f"{busy} workers busy at a time use all cores ({cores}): gains are upper bounds"
    elif kind == "node":
        yield f"the node's cores were all in use ({cores}), by others too: gains are upper bounds"
    elif kind:
        yield f"{busy} threads busy at a time use {cores} cores: Python code takes turns, gains are upper bounds"
    for one in queues:
        if doubt := clean(one.get("doubt")):
            yield f"{clean(one.get('name'), 24)}: {doubt}"
    for one in stages:
        if missing := clean(one.get("unmeasured")):
            yield f"{clean(one.get('name'), 24)}: {missing}"
