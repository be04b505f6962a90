"""The report's lines on efficiency: wall time against the device's peak, line by line."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from traintrace_analysis.efficiency import told_of_peak
from traintrace_analysis.wording import any_number, capped_percent, operations
from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite
from traintrace_reporting.lenses.efficiency import UNKNOWN

_NAME, _TIME, _SHARE = 24, 12, 10
_IMPOSSIBLE: Final = 10.0  # times the wall time: how much more is of no interest
_SMALL: Final = 0.005  # of the wall time; lines below are told together
_ALWAYS: Final = ("useful_compute", "compute_overhead")
_CONVENTIONS: Final = {
    "counted": "counted on real steps",
    "given": "as given",
    "6ND": "6ND, without attention's scores",
}


def rows(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give the budget as lines; nothing where neither a peak is known nor anybody asked."""
    lens = dig(summary, "efficiency")
    mfu = finite(dig(lens, "mfu", "run"))
    if mfu is None and dig(lens, "asked") is not True:
        return
    rank = f"rank {clean(dig(lens, 'rank'), 8)}, " if layout.has_ranks(summary) else ""
    yield layout.heading("Efficiency", rank + _note(lens, mfu), width)
    if mfu is None:
        yield from layout.remarks(plain.sentence(dig(lens, "reason")), width)
        return
    problem = plain.sentence(dig(lens, "problem"))
    if problem:
        yield Text("  " + plain.filled(problem, width - 2).replace("\n", "\n  "), "bold red")
    yield from _lines(lens, width)
    yield from layout.remarks(plain.joined(_basis(lens)), width)


def _note(lens: object, mfu: float | None) -> str:
    if mfu is None:
        return "no MFU"
    steps = finite(dig(lens, "mfu", "steps"))
    low, high = finite(dig(lens, "mfu", "run_low")), finite(dig(lens, "mfu", "run_high"))
    told = f"MFU {capped_percent(mfu)} of the run"
    if low is not None and high is not None and capped_percent(low) != capped_percent(high):
        told += f" ({capped_percent(low)} to {capped_percent(high)})"
    return told if steps is None else f"{told}, {capped_percent(steps)} in steps"


def _lines(lens: object, width: int) -> Iterator[RenderableType]:
    lines, total = dig(lens, "lines_ns"), finite(dig(lens, "total_ns"))
    if not isinstance(lines, Mapping) or not total or total < 0.0:
        return
    known = {clean(name, _NAME - 2): finite(ns) for name, ns in lines.items()}
    shown = {name: ns for name, ns in known.items() if ns is not None}
    small = [name for name, ns in shown.items() if abs(ns) < _SMALL * total and name not in _ALWAYS]
    for name, ns in shown.items():
        if name not in small or len(small) == 1:
            yield _line(name, ns, total, _kinds(lens, name), width)
    if len(small) > 1:
        yield _line(f"{len(small)} more", sum(shown[name] for name in small), total, "", width)


def _line(name: str, ns: float, total: float, kinds: str, width: int) -> Text:
    share, time = ns / total, plain.seconds(ns / 1e9).rjust(_TIME)
    text = f"  {name}".ljust(_NAME)
    if abs(share) > _IMPOSSIBLE:
        text += capped_percent(share).rjust(_TIME + _SHARE)
    else:
        text += time + capped_percent(share).rjust(_SHARE)
    colour = "red" if ns < 0.0 and name == "compute_overhead" else ""
    line = Text.assemble((text, colour), (f"   {kinds}" if kinds else "", "yellow"))
    line.truncate(width, overflow="ellipsis")
    return line


def _kinds(lens: object, line: str) -> str:
    kinds = dig(lens, "named_by", line)
    return ", ".join(clean(kind, 24) for kind in kinds) if isinstance(kinds, list) else ""


def _peak(value: object) -> str:
    known = finite(value)
    return "?" if known is None else any_number(known)


def _basis(lens: object) -> Iterator[str]:
    """Say what the numbers rest on."""
    work, peak = dig(lens, "work"), dig(lens, "peak")
    each = finite(dig(work, "flops_per_step"))
    if each is not None:
        convention = clean(dig(work, "convention"), 16)
        told = _CONVENTIONS.get(convention, convention)
        steps = finite(dig(work, "counted_steps"))
        if convention == "counted" and steps:
            told = f"counted on {plain.count(steps, 'real step')}"
        yield f"{operations(each)} a step ({told})"
    tflops = dig(peak, "tflops")
    if isinstance(tflops, Mapping) and tflops:
        whose = told_of_peak(clean(dig(peak, "source")))
        each_peak = ", ".join(
            _peak(value) + ("" if clean(name) == UNKNOWN else f" {clean(name, 8)}")
            for name, value in tflops.items()
        )
        yield f"peak {each_peak} TFLOP/s ({whose})"
    again = finite(dig(work, "recomputed_share"))
    if again:
        yield f"{plain.percent(again)} more was computed again in backward and is overhead"
    uncounted = dig(work, "uncounted")
    if isinstance(uncounted, list) and uncounted:
        names = ", ".join(clean(name, 40) for name in uncounted[:3])
        yield f"not in it, of unknown size: {names}"
    if clean(dig(lens, "compute_clock")) == "device":
        yield "compute_elsewhere: below 0, the device computed while the host was in other lines"
