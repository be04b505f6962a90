"""What the traces of a run say together, in numbers a report can show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from traintrace_analysis.traces.bubble import Bubble
from traintrace_analysis.traces.collectives import CollectiveWaits, find_waits
from traintrace_analysis.traces.device_time import DeviceTime, device_times
from traintrace_analysis.traces.host_time import host_time
from traintrace_analysis.traces.kernel_table import KernelUse, kernel_table
from traintrace_analysis.traces.passes import bubble_of_traces
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
            was waited or that is not known, also where a trace does not say its rank.
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
    doubts = [_doubts(trace, ordered) for trace in ordered]
    times = tuple(_time_of(trace, waits, row, doubts[row]) for row, trace in enumerate(ordered))
    late: dict[int, float] = {}
    caused = 0 if waits is None else sum(waits.caused_ns)
    if waits is not None and caused and len(ranks) == len(traces):
        late = {
            int(trace.rank or 0): ns / caused
            for trace, ns in zip(ordered, waits.caused_ns, strict=True)
        }
    offsets = () if waits is None else waits.clock_offset_ns
    return TraceAnalysis(times, waits, late, bubble_of_traces(ordered, offsets))


def _time_of(
    trace: Trace, waits: CollectiveWaits | None, row: int, doubts: Sequence[str]
) -> TraceTime:
    steps = find_steps(trace)
    devices = device_times(trace, steps)
    host_only = not devices
    if host_only:
        devices = (host_time(trace, steps),)
    late = None
    if waits is not None:
        late = tuple((one.exposed & waits.waiting_on(row, one.device)).total_ns for one in devices)
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
        notes=(*_notes(trace, steps, devices, host_only), *doubts),
    )


def _doubts(trace: Trace, traces: Sequence[Trace]) -> list[str]:
    """Say what speaks against the traces being of the ranks of one job."""
    doubts = []
    if trace.rank is None and len(traces) > 1:
        doubts.append("it does not say its rank, nor does its name, e.g. rank0.json")
    if trace.rank is not None and trace.world_size and trace.rank >= trace.world_size:
        doubts.append(f"it says rank {trace.rank} of {trace.world_size}, which cannot be")
    if len({one.world_size for one in traces if one.world_size}) > 1 and trace.world_size:
        doubts.append(f"it is of a job of {trace.world_size} ranks, and another one is not")
    return doubts


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
    if not host_only and len(steps) and not any(one.busy_ns for one in devices):
        notes.append(
            "nothing ran on its devices in the marked steps: have they another clock than the host?"
        )
    for reason, count in trace.skipped.items():
        what = "1 event was" if count == 1 else f"{count:,} events were"
        notes.append(f"{what} left out ({reason})")
    return notes
