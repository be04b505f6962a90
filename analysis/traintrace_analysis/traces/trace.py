"""One rank's trace of a profiler as columns, whatever file it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Ints, Marks

# What an event is, as small integers in the column `activity`.
KERNEL: Final = 0  # a kernel on a device
MEMCPY: Final = 1  # a copy that a device makes
MEMSET: Final = 2
CALL: Final = 3  # a call of the device's runtime or driver on the host
ANNOTATION: Final = 4  # a named range on a host thread
OPERATOR: Final = 5  # a framework operator on a host thread
ACTIVITIES: Final = ("kernel", "memcpy", "memset", "runtime call", "annotation", "operator")

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The events of one rank's trace that have a length, as columns of equal length.

    Attributes:
        label: What the trace is called, e.g. its file's name.
        rank, world_size: As the trace says; None if it does not. group_count: process groups of the job, too.
        names: Names of events, by the numbers in `name`. groups: process groups of collectives, by the
            numbers in `group`: text that is the same on all its ranks. group_sizes: the ranks in each; None
            where the trace does not say.
        start_ns: Moments [ns]; of one clock within a trace. duration_ns: lengths, 0 or more.
        activity: `KERNEL`, `MEMCPY`, ... device, stream: of device activities. thread: number of the host
            thread. correlation: what a runtime call and the activities that it started share; several
            kernels of one launched graph share one. group: of a collective. Each is `UNKNOWN` where the
            trace does not say.
        damage: What of the file could not be read, in words; None for a whole one.
        skipped: How many events were left out, by reason.
    """

    label: str
    rank: int | None
    world_size: int | None
    names: tuple[str, ...]
    groups: tuple[str, ...]
    group_sizes: tuple[int | None, ...]
    start_ns: Ints
    duration_ns: Ints
    name: Ints
    activity: Ints
    device: Ints
    stream: Ints
    thread: Ints
    correlation: Ints
    group: Ints
    group_count: int | None = None
    damage: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def end_ns(self) -> Ints:
        """End of each event [ns]."""
        ends: Ints = self.start_ns + self.duration_ns
        return ends

    @property
    def on_device(self) -> Marks:
        """Mark the events that ran on a device."""
        marks: Marks = self.activity <= MEMSET
        return marks

    @property
    def devices(self) -> tuple[int, ...]:
        """Numbers of the devices on which something ran, ascending."""
        return tuple(int(one) for one in np.unique(self.device[self.on_device]))

    def called(self, named: "Marks") -> Marks:
        """Mark the events whose name is marked in `named`, which has one mark a name."""
        if not len(named):
            return np.zeros(len(self.name), np.bool_)
        marks: Marks = named[self.name]
        return marks
