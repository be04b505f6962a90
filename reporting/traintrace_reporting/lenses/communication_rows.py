"""How the section on communication is drawn: devices as a table, the longest kernels, waits, the bubble."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite

_COLUMNS: Final = (
    ("compute", "compute_ms"),
    ("comm.", "communication_ms"),
    ("exposed", "exposed_ms"),
    ("late", "late_wait_ms"),
    ("copies", "copy_ms"),
    ("idle", "idle_ms"),
    ("host", "host_bound_ms"),
)
_OF_DEVICES: Final = ("copy_ms", "idle_ms")
_LABEL: Final = 16
_SHOWN_DEVICES: Final = 8
_SHOWN_KERNELS: Final = 5


def rows(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give the section's heading and lines; nothing where there is nothing to say."""
    found = dig(summary, "communication")
    traces = [one for one in _listed(dig(found, "traces")) if _listed(dig(one, "devices"))]
    pipeline = dig(found, "pipeline")
    shared = finite(dig(found, "shared_wait_ms"))
    if not traces and finite(dig(pipeline, "bubble_share")) is None and shared is None:
        return
    yield layout.heading("Communication", _heading_note(traces), width)
    if traces:
        yield from _device_table(traces, width)
        yield from _kernel_lines(traces[0], width)
    elif shared is not None:
        yield _waits_line(found, shared, width)
    if finite(dig(pipeline, "bubble_share")) is not None:
        yield layout.labelled("  pipeline", _pipeline_text(pipeline), width, _LABEL)
    yield from layout.remarks(_remarks(found, traces), width)


def _heading_note(traces: list[Any]) -> str:
    if not traces:
        return "waits of ranks for each other"
    steps = dig(traces[0], "steps")
    count, first, last = (finite(dig(steps, key)) for key in ("count", "first", "last"))
    if not count or first is None or last is None:
        return "whole trace"
    of_run = "" if dig(steps, "of_run") else " of the profiler"
    span = f"step {first:.0f}" if first == last else f"steps {first:.0f} to {last:.0f}"
    return f"trace of {span}{of_run}"


def _device_table(traces: list[Any], width: int) -> Iterator[RenderableType]:
    entries = [(trace, one) for trace in traces for one in _listed(dig(trace, "devices"))]
    scale = max(finite(dig(one, "compute_ms")) or 0.0 for _, one in entries)
    lines = [
        (
            _name_of(trace, one),
            [plain.milliseconds(_per_step(trace, one, key), scale) for _, key in _COLUMNS],
        )
        for trace, one in entries[:_SHOWN_DEVICES]
    ]
    marked = any(finite(dig(trace, "steps", "count")) for trace, _ in entries)
    kept = [
        place for place in range(len(_COLUMNS)) if any(cells[place] != "-" for _, cells in lines)
    ]
    heads = [head for head, _ in _COLUMNS]
    while len(kept) > 1 and _widest(heads, lines, kept) >= (width - _LABEL) // len(kept):
        kept.pop()
    label = "ms per step" if marked else "milliseconds"
    yield _line(label, [heads[place] for place in kept], width, "dim")
    for name, cells in lines:
        yield _line(name, [cells[place] for place in kept], width, "")
    if len(entries) > len(lines):
        yield from layout.remarks(f"and {len(entries) - len(lines)} more devices", width)


def _widest(heads: list[str], lines: list[tuple[str, list[str]]], kept: list[int]) -> int:
    """Give the length of the longest cell in the columns that are kept."""
    return max(len(cells[place]) for cells in (heads, *(c for _, c in lines)) for place in kept)


def _per_step(trace: object, device: object, key: str) -> float | None:
    if key in _OF_DEVICES and dig(device, "device") is None:
        return None  # what the host does between operators is not in the trace
    value, count = finite(dig(device, key)), finite(dig(trace, "steps", "count")) or 1.0
    return None if value is None else value / count


def _name_of(trace: object, device: object) -> str:
    rank, number = dig(trace, "rank"), dig(device, "device")
    who = clean(dig(trace, "label"), 10) if rank is None else f"rank {clean(rank, 5)}"
    return f"{who} host" if number is None else f"{who} dev {clean(number, 3)}"


def _line(name: str, cells: list[str], width: int, style: str) -> Text:
    cell = (width - _LABEL) // max(1, len(cells))
    return Text(
        f"  {name}".ljust(width - cell * len(cells)) + "".join(c.rjust(cell) for c in cells), style
    )


def _kernel_lines(trace: object, width: int) -> Iterator[RenderableType]:
    kernels = [
        use for use in _listed(dig(trace, "kernels")) if finite(dig(use, "total_ms")) is not None
    ]
    if not kernels:
        return
    steps = finite(dig(trace, "steps", "count")) or 1.0
    sort = "operators" if dig(trace, "host_only") else "kernels"
    yield Text(f"  longest {sort} of {_name_of(trace, {}).removesuffix(' host')}", "dim")
    scale = finite(dig(kernels[0], "total_ms")) or 1.0
    for use in kernels[:_SHOWN_KERNELS]:
        told = plain.milliseconds((finite(dig(use, "total_ms")) or 0.0) / steps, scale / steps)
        times = f"{(finite(dig(use, 'count')) or 0.0) / steps:,.3g} x"
        name = clean(dig(use, "name"), max(12, width - 4 - 24))
        yield Text(f"    {name}".ljust(width - 24) + times.rjust(11) + f"{told} ms".rjust(13))


def _waits_line(found: object, shared: float, width: int) -> Text:
    waits = dig(found, "waiting_ms_by_rank")
    known = (
        {clean(r, 6): ms for r, v in waits.items() if (ms := finite(v)) is not None}
        if isinstance(waits, Mapping)
        else {}
    )
    text = f"no rank waits less than {plain.seconds(shared / 1e3)} a step"
    if known:
        most = max(known, key=lambda rank: known[rank])
        text += f"; rank {most} waits most, {plain.seconds(known[most] / 1e3)}"
    return layout.labelled("  waiting", text + ".", width, _LABEL)


def _pipeline_text(pipeline: object) -> str:
    text = f"idle {plain.percent(dig(pipeline, 'bubble_share'))} of its ranks' time"
    if finite(dig(pipeline, "minimum_share")) is None:
        return f"{text}; the least is not known: {clean(dig(pipeline, 'unknown'), 120)}."
    shape = (
        f"{clean(dig(pipeline, 'ranks'), 6)} ranks, {clean(dig(pipeline, 'micro_batches'), 6)} micro-batches, "
        f"{clean(dig(pipeline, 'stages_per_rank'), 6)} stage(s) a rank"
    )
    return f"{text}; the least for {shape}: {plain.percent(dig(pipeline, 'minimum_share'))}."


def _remarks(found: object, traces: list[Any]) -> str:
    parts = []
    if any(not dig(trace, "host_only") for trace in traces):
        parts.append("exposed: no compute kernel ran on the device meanwhile")
        parts.append("late: of it, waiting for a rank that came later")
        parts.append("host: idle with nothing queued")
    late = dig(found, "late_share_by_rank")
    known = (
        {r: s for r, v in late.items() if (s := finite(v)) is not None}
        if isinstance(late, Mapping)
        else {}
    )
    if known:
        worst = max(known, key=lambda rank: known[rank])
        parts.append(
            f"ranks wait for the last one: rank {clean(worst, 6)} causes {plain.percent(known[worst])} of it"
        )
    parts += [clean(note, 200) for note in _listed(dig(found, "notes"))[:4]]
    return plain.joined(parts)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
