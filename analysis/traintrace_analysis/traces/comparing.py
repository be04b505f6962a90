"""Two traces against each other: kernels by name, exposed communication, seconds per step.

One trace is a few steps of one run. So differences are shown as they are, and what they would be by chance is
not known: nothing here decides that a run is slower.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from traintrace_analysis.traces.device_time import DeviceTime, device_times
from traintrace_analysis.traces.host_time import host_time
from traintrace_analysis.traces.kernel_table import KernelUse, kernel_table, range_table
from traintrace_analysis.traces.steps import TraceSteps, find_steps
from traintrace_analysis.traces.trace import Trace

Change = Literal["both", "new", "gone"]
Basis = Literal["step", "trace"]
_Sums: TypeAlias = dict[tuple[str, str], tuple[int, int]]
_Table: TypeAlias = Callable[[Trace, TraceSteps], tuple[KernelUse, ...]]


@dataclass(frozen=True, slots=True)
class TimeChange:
    """One time on both sides, in ms per step (or per trace; see `TraceComparison.basis`).

    Attributes:
        a_ms, b_ms: None where the side does not tell it. percent: of A; None where A is 0 or not known.
    """

    name: str
    a_ms: float | None
    b_ms: float | None

    @property
    def difference_ms(self) -> float | None:
        """B less A; None where a side is not known."""
        return None if self.a_ms is None or self.b_ms is None else self.b_ms - self.a_ms

    @property
    def percent(self) -> float | None:
        """Difference in percent of A."""
        apart = self.difference_ms
        return None if apart is None or not self.a_ms else 100.0 * apart / self.a_ms


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel (or operator, where nothing ran on a device) on both sides, per step or trace as the rest."""

    name: str
    sort: str
    change: Change
    a_count: float
    b_count: float
    a_ms: float
    b_ms: float

    @property
    def difference_ms(self) -> float:
        """B less A."""
        return self.b_ms - self.a_ms

    @property
    def percent(self) -> float | None:
        """Difference in percent of A; None for what is new."""
        return 100.0 * self.difference_ms / self.a_ms if self.a_ms else None


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """Trace B against trace A.

    Attributes:
        basis: "step" if both traces mark steps, so that traces of different length compare; else "trace".
        steps: Marked steps of A and B.
        times: The step itself and what devices did, biggest difference first; the step comes first.
        kernels, ranges: By name, biggest difference first. Ranges are what the training marked on the host,
            e.g. `record_function("forward")`.
        notes: What limits the comparison, each a sentence.
    """

    basis: Basis
    steps: tuple[int, int]
    times: tuple[TimeChange, ...]
    kernels: tuple[KernelChange, ...]
    ranges: tuple[KernelChange, ...]
    notes: tuple[str, ...]


def compare_traces(a: Sequence[Trace], b: Sequence[Trace]) -> TraceComparison:
    """Compare the traces of run B with those of run A; several ranks a side are taken as their mean.

    Raises:
        ValueError: A side has no trace.
    """
    if not a or not b:
        raise ValueError("each side needs a trace")
    counts = _steps_of(a), _steps_of(b)
    basis: Basis = "step" if all(counts) else "trace"
    parts = (counts[0] * len(a), counts[1] * len(b)) if basis == "step" else (len(a), len(b))
    sides = _times(a, parts[0]), _times(b, parts[1])
    names = dict.fromkeys((*sides[0], *sides[1]))
    times = [TimeChange(name, sides[0].get(name), sides[1].get(name)) for name in names]
    head, rest = times[:1], times[1:]
    rest.sort(key=lambda one: -abs(one.difference_ms or 0.0))
    return TraceComparison(
        basis=basis,
        steps=counts,
        times=(*head, *rest),
        kernels=_changes(_summed(a, kernel_table), _summed(b, kernel_table), parts),
        ranges=_changes(_summed(a, range_table), _summed(b, range_table), parts),
        notes=tuple(_notes(a, b, counts)),
    )


def _steps_of(side: Sequence[Trace]) -> int:
    """Give how many steps each trace of a side marks; 0 if one marks none or they differ."""
    counts = {len(find_steps(trace)) for trace in side}
    return counts.pop() if len(counts) == 1 else 0


def _times(side: Sequence[Trace], parts: int) -> dict[str, float]:
    """Give each time [ms] that all traces of a side tell, as the mean over their devices and the side's parts."""
    told: list[dict[str, float]] = []
    for trace in side:
        steps = find_steps(trace)
        devices = device_times(trace, steps) or (host_time(trace, steps),)
        each = [_spent(one) for one in devices]
        names = [name for name in each[0] if all(name in one for one in each)]
        told.append({name: sum(one[name] for one in each) / len(each) for name in names})
    return {
        name: sum(one[name] for one in told) / parts / 1e6
        for name in told[0]
        if all(name in one for one in told)
    }


def _spent(one: DeviceTime) -> dict[str, int]:
    spent = {
        "span": one.span_ns,
        "compute": one.compute_ns,
        "communication": one.communication_ns,
        "exposed communication": one.exposed_ns,
    }
    if one.device is not None:  # of the host, what it does between operators is not in a trace
        spent |= {"copies": one.copy_ns, "idle": one.idle_ns}
    if one.host_bound_ns is not None and one.waiting_ns is not None:
        spent |= {"idle, host-bound": one.host_bound_ns, "idle, waiting": one.waiting_ns}
    return spent


def _changes(a: _Sums, b: _Sums, parts: tuple[int, int]) -> tuple[KernelChange, ...]:
    changes = []
    for key in dict.fromkeys((*a, *b)):
        first, second = a.get(key, (0, 0)), b.get(key, (0, 0))
        change: Change = "new" if not first[0] else "gone" if not second[0] else "both"
        changes.append(
            KernelChange(
                name=key[0],
                sort=key[1],
                change=change,
                a_count=first[0] / parts[0],
                b_count=second[0] / parts[1],
                a_ms=first[1] / parts[0] / 1e6,
                b_ms=second[1] / parts[1] / 1e6,
            )
        )
    return tuple(sorted(changes, key=lambda one: (-abs(one.difference_ms), one.name)))


def _summed(side: Iterable[Trace], table: _Table) -> _Sums:
    """Give count and total [ns] of each line of a table by name and sort."""
    sums: _Sums = {}
    for use in (use for trace in side for use in table(trace, find_steps(trace))):
        count, total = sums.get((use.name, use.sort), (0, 0))
        sums[use.name, use.sort] = count + use.count, total + use.total_ns
    return sums


def _notes(a: Sequence[Trace], b: Sequence[Trace], counts: tuple[int, int]) -> Iterable[str]:
    if not all(counts):
        yield "A trace marks no steps (or its ranks different numbers): times are of whole traces, of any length."
    marked = [{one.ours for one in map(find_steps, side) if len(one)} for side in (a, b)]
    if all(counts) and marked[0] != marked[1]:
        yield "One side's steps are the run's and the other's the profiler's: they may not be the same."
    if len(a) != len(b):
        yield f"A has {len(a)} traces and B {len(b)}: each side is the mean over its own."
    kinds = {trace.on_device.any() for trace in (*a, *b)}
    if len(kinds) > 1:
        yield "One side ran on a device and the other on the host alone: their kernels do not compare."
    for trace in (*a, *b):
        if trace.damage is not None:
            yield f"{trace.label} is damaged and was read up to there: {trace.damage}."
    yield "A trace is a few steps under a profiler: differences may be chance; compare runs to decide."
