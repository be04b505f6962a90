"""A comparison as people read it: the answer first, then what it rests on.

Everything comes from the content of the comparison's file, so the text and the file agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite, milliseconds, sentence

_COLOURS: Final = {
    "REGRESSION": "red",
    "SLOWER": "red",
    "IMPROVEMENT": "green",
    "FASTER": "green",
    "EQUIVALENT": "green",
    "WITHIN_THRESHOLD": "green",
    "MIXED": "yellow",
}
_JUDGED: Final = {
    "regressed": "red",
    "improved": "green",
    "moved": "yellow",
    "worse": "red",
    "appeared": "red",
    "better": "green",
    "gone": "green",
}
_RUNS_SHOWN: Final = 6


def page(content: Mapping[str, Any], width: int) -> RenderableType:
    """Give a comparison as a page of at most `width` columns."""
    return Constrain(Group(*_page(content, width)), width)


def _page(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    guard = content["guard"]
    if guard is not None:
        yield Text(
            plain.filled(clean(guard["line"]), width), _COLOURS.get(guard["outcome"], "blue")
        )
        for reason in guard["reasons"]:
            if reason not in guard["line"]:
                yield Text(plain.filled(f"  {clean(reason)}", width), "dim")
        yield Text(plain.filled(f"  {_compared(guard)}", width), "dim")
        yield Text()
    yield _verdict(content, width)
    for side in ("a", "b"):
        yield Text(plain.filled(f"{side.upper()}  {_runs(content[side])}", width))
    for section in (_metrics, _phases, _findings, _figures):
        body = list(section(content, width))
        if body:
            yield Text()
            yield from body
    for warning in content["warnings"]:
        yield Text(plain.filled(f"Warning: {sentence(warning)}", width), "yellow")


def _compared(guard: Mapping[str, Any]) -> str:
    steps = guard["measured_steps"]
    if steps is None:
        return "No decision is made; what follows is context, over each run's own window of steps."
    return f"Compared are steps {steps['start']} to {steps['end']}, as the guard declares."


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    told = [
        f"{clean(run['name'], 40)} ({plain.count(run['steps'], 'step')}"
        f"{'' if run['status'] == 'completed' else ', ' + clean(run['status'], 20)})"
        for run in runs[:_RUNS_SHOWN]
    ]
    more = [f"{len(runs) - _RUNS_SHOWN} more"] if len(runs) > _RUNS_SHOWN else []
    return ", ".join([*told, *more])


def _verdict(content: Mapping[str, Any], width: int) -> Panel:
    colour = _COLOURS.get(content["verdict"], "blue")
    told = layout.grid()
    inner = width - 4 - len("Sure  ")
    for label, value, style in (
        ("Why", sentence(content["why"]), ""),
        ("Sure", sentence(content["confidence"]), ""),
        ("Do", sentence(content["action"]), "green"),
    ):
        if value:
            told.add_row(Text(label.ljust(4), "dim"), Text(plain.filled(value, inner), style))
    headline = Text(plain.filled(sentence(content["headline"]), width - 4), "bold")
    body = Group(headline, told) if told.row_count else headline
    told_of = "Any change: " if content["guard"] is not None else ""
    title = Text(f"{told_of}{clean(content['verdict'], 20)}", f"bold {colour}")
    return Panel(body, title=title, title_align="left", border_style=colour, box=ROUNDED)


def _table(*heads: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for place, head in enumerate(heads):
        left = place == 0 or head in ("", "finding", "after")
        table.add_column(head, justify="left" if left else "right", overflow="fold")
    return table


def _metrics(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    metrics = content["metrics"]
    scale = max(
        (finite(dig(one, side, "mean_ms")) or 0.0 for one in metrics for side in "ab"), default=0.0
    )
    both = [one for one in metrics if one["a"]["available"] and one["b"]["available"]]
    measured = [one for one in both if one["a"]["mean_ms"] or one["b"]["mean_ms"]]
    if measured:
        yield layout.heading("One step", "mean ms, largest change first", width)
        table = _table("milliseconds", "A", "B", "change", "interval", "change %", "")
        for one in measured:
            table.add_row(
                Text(f"  {clean(one['name'], 20)}", "bold" if one["name"] == "step_time" else ""),
                milliseconds(one["a"]["mean_ms"], scale),
                milliseconds(one["b"]["mean_ms"], scale),
                _signed(one["difference_ms"], scale),
                _interval(one["low_ms"], one["high_ms"], scale),
                _growth(one),
                _judged(one["judged"]),
            )
        yield table
    lacking = [one for one in metrics if one["a"]["available"] != one["b"]["available"]]
    for one in lacking:
        side = "A" if one["b"]["available"] else "B"
        reason = clean(one[side.lower()]["reason"], 120)
        text = f"not comparable: not measured in {side}" + (f" ({reason})" if reason else "")
        yield layout.labelled(f"  {clean(one['name'], 20)}", text, width, 22)
    step = next((one for one in measured if one["name"] == "step_time"), None)
    smallest = finite(dig(step, "smallest_detectable"))
    if smallest is not None:
        yield Text(f"  smallest change that these runs could show: {100 * smallest:.1f} %", "dim")


def _phases(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    phases = [one for one in content["phases"] if one["a_s"] or one["b_s"]]
    if not phases:
        return
    yield layout.heading("Where the change is", "ms per step, all phases together", width)
    scale = max(1e3 * max(finite(one["a_s"]) or 0.0, finite(one["b_s"]) or 0.0) for one in phases)
    table = _table("milliseconds", "A", "B", "change", "interval", "of it", "")
    for one in phases:
        low, high = (_times_thousand(one[name]) for name in ("low_s", "high_s"))
        share = finite(one["share_of_change"])
        place = "" if one["place"] == "step" else " (between)"
        partner = f" with {clean(one['partner'], 20)}" if one["partner"] else ""
        table.add_row(
            f"  {clean(one['name'], 20)}{place}",
            milliseconds(_times_thousand(one["a_s"]), scale),
            milliseconds(_times_thousand(one["b_s"]), scale),
            _signed(_times_thousand(one["difference_s"]), scale),
            _interval(low, high, scale),
            "" if share is None else f"{100 * share:.0f} %",
            Text(f"{clean(one['judged'], 12)}{partner}", _JUDGED.get(one["judged"], "dim")),
        )
    yield table


def _findings(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    if not content["findings"]:
        return
    yield layout.heading("Findings", "severity before and after", width)
    table = _table("finding", "A", "B", "")
    for one in content["findings"]:
        table.add_row(
            f"  {clean(one['kind'], 24)}",
            clean(one["before"], 12),
            clean(one["after"], 12),
            _judged(one["turn"]),
        )
    yield table


def _figures(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    figures = [one for one in content["figures"] if one["a"] is not None or one["b"] is not None]
    if not figures:
        return
    yield layout.heading("Around the step", "of the whole run; -: not measured", width)
    table = _table("figure", "A", "B", "change %", "")
    for one in figures:
        table.add_row(
            f"  {clean(one['section'], 12)} {clean(one['name'], 40)}",
            _figure(one["a"], one["name"]),
            _figure(one["b"], one["name"]),
            _percent(one["ratio"]),
            _judged(one["judged"]),
        )
    yield table


def _judged(word: str) -> Text:
    return Text(clean(word, 12), _JUDGED.get(word, "dim"))


def _figure(value: object, name: str) -> str:
    number = finite(value)
    if number is None:
        return "-"
    if name.endswith("bytes"):
        return f"{number / 2**20:,.1f} MiB"
    return plain.number(number)


def _signed(value: object, scale: float) -> str:
    number = finite(value)
    text = milliseconds(number, scale)
    return f"+{text}" if number is not None and number > 0 and text[0].isdigit() else text


def _interval(low: object, high: object, scale: float) -> str:
    if finite(low) is None or finite(high) is None:
        return "-"
    return f"{_signed(low, scale)} to {_signed(high, scale)}"


def _growth(one: Mapping[str, Any]) -> str:
    """Give the change of the mean; none where there is no difference, as between two clocks."""
    before, after = finite(one["a"]["mean_ms"]), finite(one["b"]["mean_ms"])
    if not before or after is None or one["difference_ms"] is None:
        return "-"
    return _percent(after / before)


def _percent(ratio: object) -> str:
    number = finite(ratio)
    return "-" if number is None else f"{100.0 * (number - 1.0):+.1f}"


def _times_thousand(value: object) -> float | None:
    number = finite(value)
    return None if number is None else number * 1e3
