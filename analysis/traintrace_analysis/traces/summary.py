"""What the traces of a run say together, in numbers a report can show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from traintrace_analysis.traces.bubble import Bubble, bubble_of_traces
from traintrace_analysis.traces.collectives import CollectiveWaits, find_waits
from traintrace_analysis.traces.device_time import DeviceTime, device_times
from traintrace_analysis.traces.host_time import host_time
from traintrace_analysis.traces.kernel_table import KernelUse, kernel_table
from traintrace_analysis.traces.steps import TraceSteps, find_steps
from traintrace_analysis.traces.trace import Trace

# Kernels that a report can list; a trace may hold thousands of names.
MOST_KERNELS: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class TraceTime:
    """What one rank's trace says.

    Attributes:
        host_only: True if nothing ran on a device: only the host's operators are known.
        late_wait_ns: By entry of `devices`, the part of its exposed communication that was waiting for ranks
            that came later; None where the traces of the other ranks are missing.
        kernels: The longest ones by name, at most `MOST_KERNELS`.
        notes: What a reader must know of the trace; each follows its name and a colon.
    """

    label: str
    rank: int | None
    host_only: bool
    steps: TraceSteps
    devices: tuple[DeviceTime, ...]
    late_wait_ns: tuple[int, ...] | None
    kernels: tuple[KernelUse, ...]
    damage: str | None
    skipped: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def communicates(self) -> bool:
        """Tell whether any communication is in the trace."""
        return any(one.communication_ns for one in self.devices)


@dataclass(frozen=True, slots=True, eq=False)
class TraceAnalysis:
    """What the traces of a run say together.

    Attributes:
        traces: By rank as they say, then by name. waits: None where collectives cannot be matched.
        late_share: By rank, its share of what ranks waited for the last one of a collective; empty if nothing
            was waited or that is not known.
        bubble: None without the marks of a pipeline.
    """

    traces: tuple[TraceTime, ...]
    waits: CollectiveWaits | None
    late_share: Mapping[int, float]
    bubble: Bubble | None


def analyse_traces(traces: Sequence[Trace]) -> TraceAnalysis | None:
    """Analyse the traces of one run, at most one a rank; None without any.

    Raises:
        ValueError: Two traces say that they are of the same rank.
    """
    if not traces:
        return None
    ranks = [trace.rank for trace in traces if trace.rank is not None]
    twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
    if twice is not None:
        both = [trace.label for trace in traces if trace.rank == twice]
        raise ValueError(f"{both[0]} and {both[1]} are both of rank {twice}; give one trace a rank")
    ordered = sorted(traces, key=lambda t: (t.rank is None, t.rank or 0, t.label))
    waits = find_waits(ordered)
    times = tuple(_time_of(trace, waits, row) for row, trace in enumerate(ordered))
    late: dict[int, float] = {}
    caused = 0 if waits is None else sum(waits.caused_ns)
    if waits is not None and caused:
        for row, trace in enumerate(ordered):
            rank = row if trace.rank is None else trace.rank
            late[rank] = waits.caused_ns[row] / caused
    offsets = () if waits is None else waits.clock_offset_ns
    return TraceAnalysis(times, waits, late, bubble_of_traces(ordered, offsets))


def _time_of(trace: Trace, waits: CollectiveWaits | None, row: int) -> TraceTime:
    steps = find_steps(trace)
    devices = device_times(trace, steps)
    host_only = not devices
    if host_only:
        devices = (host_time(trace, steps),)
    late = None
    if waits is not None:
        late = tuple((one.exposed & waits.waiting[row]).total_ns for one in devices)
    return TraceTime(
        label=trace.label,
        rank=trace.rank,
        host_only=host_only,
        steps=steps,
        devices=devices,
        late_wait_ns=late,
        kernels=kernel_table(trace, steps)[:MOST_KERNELS],
        damage=trace.damage,
        skipped=trace.skipped,
        notes=tuple(_notes(trace, steps, devices, host_only)),
    )


def _notes(
    trace: Trace, steps: TraceSteps, devices: Sequence[DeviceTime], host_only: bool
) -> list[str]:
    notes = []
    if trace.damage is not None:
        notes.append(f"damaged, and read up to there: {trace.damage}")
    if host_only:
        notes.append(
            "no device activity: only the host's operators are known, not what Python does between them"
        )
    if not any(one.communication_ns for one in devices):
        notes.append("no communication in it, so nothing is said about it")
    if not len(steps):
        notes.append("no steps are marked: times are of the whole trace")
    if not host_only and any(one.host_bound_ns is None for one in devices):
        notes.append("it does not tell when kernels were launched: idle time is not split")
    for reason, count in trace.skipped.items():
        notes.append(f"{count:,} events were left out ({reason})")
    return notes
