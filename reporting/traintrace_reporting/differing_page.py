"""What differs between two runs, as people read it."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig


def page(content: Mapping[str, Any], width: int) -> RenderableType:
    """Give the differences of two runs as a page of at most `width` columns."""
    return Constrain(Group(*_page(content, width)), width)


def _page(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    for side in ("a", "b"):
        name, status = clean(content[side]["name"], 60), clean(content[side]["status"], 20)
        yield Text.assemble((f"{side.upper()}  ", "bold"), f"{name} ({status})")
    for title in ("time", "results"):
        yield Text()
        yield Text(title.capitalize(), "bold")
        told = content[title]
        yield Text(plain.filled(f"  {clean(told['told'])}", width))
        if told["could_explain"] and title == "time":
            names = ", ".join(clean(name, 60) for name in told["could_explain"])
            yield Text(plain.filled(f"  Could explain it: {names}.", width))
    if content["logged"]:
        yield Text()
        yield from _logged(content, width)
    yield Text()
    yield from _differences(content, width)
    if content["unknown"]:
        yield Text(
            plain.filled(f"Not known of both: {', '.join(content['unknown'])}.", width), "dim"
        )
    for doubt in content["doubts"]:
        yield Text(plain.filled(f"Note: {clean(doubt)}.", width), "yellow")


def _table(*heads: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _logged(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    yield layout.heading("Logged values", f"tolerance {content['tolerance']:g}", width)
    table = _table("name", "common steps", "first other bits", "first beyond tolerance")
    for one in content["logged"]:
        table.add_row(
            f"  {clean(one['name'], 40)}",
            f"{one['common_steps']:,}",
            _parting(one["bits"]),
            _parting(one["beyond"]),
        )
    yield table


def _parting(parting: object) -> str:
    step = dig(parting, "step")
    if step is None:
        return "-"
    a, b = (dig(parting, side) for side in "ab")
    return f"step {step}: {_number(a)}, {_number(b)}"


def _number(value: object) -> str:
    return "not a number" if value is None else f"{value:.6g}"


def _differences(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    if not content["differences"]:
        yield Text("Nothing that is recorded of both differs.")
        return
    yield layout.heading("Differs", "may change", width)
    table = _table("what", "A", "B", "may change")
    for one in content["differences"]:
        effect = " and ".join(one["may_change"])
        why = f" ({clean(one['why'], 80)})" if one["why"] else ""
        table.add_row(
            f"  {clean(one['name'], 60)}", _value(one["a"]), _value(one["b"]), effect + why
        )
    yield table


def _value(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(value, 60)
