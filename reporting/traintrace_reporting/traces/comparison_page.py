"""Two traces against each other, as JSON and as a page: old, new, difference and percent, biggest first."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from traintrace_analysis.traces import TraceComparison, compare_traces
from traintrace_analysis.traces.comparing import KernelChange
from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite
from traintrace_reporting.traces.places import given_traces

SCHEMA_VERSION: Final = "0.1"
_NUMBERS: Final = 44
_SHOWN: Final = 15
_LISTED: Final = 500


def compare_files(a: Sequence[Path], b: Sequence[Path]) -> dict[str, Any]:
    """Compare the traces in files or folders; B with A, the reference.

    Raises:
        RunReadError: One cannot be read; the message names it.
    """
    return content_of(compare_traces(given_traces(a), given_traces(b)))


def content_of(comparison: TraceComparison) -> dict[str, Any]:
    """Give a comparison of traces as JSON; times are per step where `basis` says so."""
    return {
        "schema_version": SCHEMA_VERSION,
        "basis": comparison.basis,
        "steps": {"a": comparison.steps[0], "b": comparison.steps[1]},
        "times": [
            {
                "name": one.name,
                "a_ms": one.a_ms,
                "b_ms": one.b_ms,
                "difference_ms": one.difference_ms,
                "percent": one.percent,
            }
            for one in comparison.times
        ],
        "ranges": [_change(one) for one in comparison.ranges[:_LISTED]],
        "kernels": [_change(one) for one in comparison.kernels[:_LISTED]],
        "kernels_compared": len(comparison.kernels),
        "notes": list(comparison.notes),
    }


def _change(one: KernelChange) -> dict[str, Any]:
    return {
        "name": one.name,
        "sort": one.sort,
        "change": one.change,
        "a_count": one.a_count,
        "b_count": one.b_count,
        "a_ms": one.a_ms,
        "b_ms": one.b_ms,
        "difference_ms": one.difference_ms,
        "percent": one.percent,
    }


def page(content: Mapping[str, Any], width: int) -> RenderableType:
    """Give a comparison of traces as a page of at most `width` columns."""
    return Constrain(Group(*_page(content, width)), width)


def _page(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    per_step = content["basis"] == "step"
    steps = content["steps"]
    note = (
        f"A {plain.count(steps['a'], 'step')}, B {plain.count(steps['b'], 'step')}"
        if per_step
        else "whole traces"
    )
    yield layout.heading("Traces", note, width)
    yield _heads("ms per step" if per_step else "milliseconds", width)
    scale = max((finite(one["a_ms"]) or 0.0 for one in content["times"]), default=0.0)
    for one in content["times"]:
        name = {"span": "step"}.get(one["name"], one["name"]) if per_step else one["name"]
        yield _line(name, one, scale, width)
    operators = any(one["sort"] == "operator" for one in content["kernels"])
    yield from _table("Ranges", content["ranges"], len(content["ranges"]), width)
    title = "Operators" if operators else "Kernels"
    yield from _table(title, content["kernels"], content["kernels_compared"], width)
    yield from layout.remarks("\n".join(clean(note, 400) for note in content["notes"]), width)


def _table(
    title: str, lines: Sequence[Mapping[str, Any]], compared: int, width: int
) -> Iterator[RenderableType]:
    if not lines:
        return
    yield Text()
    yield layout.heading(title, f"{compared} by name", width)
    scale = max(max(one["a_ms"], one["b_ms"]) for one in lines)
    for one in lines[:_SHOWN]:
        yield _line(one["name"], one, scale, width, _told(one))
    if compared > _SHOWN:
        yield from layout.remarks(f"and {compared - _SHOWN} more (--json)", width)


def _heads(label: str, width: int) -> Text:
    cells = "".join(head.rjust(11) for head in ("A", "B", "B - A", "percent"))
    return Text(f"  {label}".ljust(width - _NUMBERS) + cells, "dim")


def _told(kernel: Mapping[str, Any]) -> str:
    """Say what is particular about a kernel: new, gone, or run more or less often."""
    if kernel["change"] != "both":
        return str(kernel["change"])
    a, b = kernel["a_count"], kernel["b_count"]
    return "" if abs(b - a) < 0.005 * max(a, b) else f"{a:,.3g} -> {b:,.3g} x"


def _line(name: str, one: Mapping[str, Any], scale: float, width: int, told: str = "") -> Text:
    room = width - _NUMBERS - 3
    label = clean(name, max(8, room - len(told) - 1)) + (f" {told}" if told else "")
    times = [plain.milliseconds(dig(one, key), scale) for key in ("a_ms", "b_ms")]
    apart, percent = finite(dig(one, "difference_ms")), finite(dig(one, "percent"))
    difference = (
        "-" if apart is None else ("+" if apart > 0.0 else "") + plain.milliseconds(apart, scale)
    )
    part = "-" if percent is None else f"{percent:+.1f} %"
    return Text(
        f"  {label}".ljust(width - _NUMBERS)
        + "".join(c.rjust(11) for c in (*times, difference, part))
    )
