"""What a scenario is: the facts of every rank and attempt, and what has to be said about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from traintrace.facts import Event, Level, Region, RunStatus, Scalar, Setup
from traintrace.flopfacts import FlopFacts
from traintrace.readings import DeviceReading, ProcessReading, SystemReading
from traintrace.stagefacts import Pipeline
from traintrace_analysis.findings import Clock, Outcome, Severity, State

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RankRecord:
    """All that one rank records in one attempt; arrays have one value for each completed step.

    Attributes:
        start_ns: Start of its traced span, Unix time.
        inside: Milliseconds by in-step account; NaN on a step that was not measured.
        device: Milliseconds by phase on the device clock, NaN as above.
        before: Milliseconds by between-step account, spent before the step in its row.
        inside_between: The same by between-step account, spent inside the step.
        after_ms: Milliseconds by account after the last step.
        flags: Bits of `traintrace.facts`.
        memory: Bytes by column of the steps table.
        samples: Work of each step.
        gc_ms: Time in the garbage collector; None if nobody watched.
        dropped: Steps that are in the sums and have no row.
    """

    rank: int
    attempt: int
    node: int
    status: RunStatus
    level: Level
    device_clock: str | None
    setup: Setup
    unmeasured: Mapping[str, str]
    start_ns: int
    inside: Mapping[str, Floats]
    device: Mapping[str, Floats]
    before: Mapping[str, Floats]
    inside_between: Mapping[str, Floats]
    after_ms: Mapping[str, float]
    flags: Ints
    memory: Mapping[str, Floats]
    samples: Ints
    gc_ms: Floats | None
    dropped: frozenset[int]
    epochs: int
    scalars: tuple[Scalar, ...] = ()
    events: tuple[Event, ...] = ()
    system: tuple[SystemReading, ...] = ()
    process: tuple[ProcessReading, ...] = ()
    devices: tuple[DeviceReading, ...] = ()
    regions: tuple[Region, ...] = ()
    flops: FlopFacts | None = None
    pipeline: Pipeline | None = None

    @property
    def steps(self) -> int:
        """Number of completed steps."""
        return len(self.flags)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A run as it happened: every rank of every attempt that left a record, and who was expected."""

    ranks: tuple[RankRecord, ...]
    world_size: int
    nodes: int = 1
    status: RunStatus = "completed"


@dataclass(frozen=True, slots=True)
class Expected:
    """What every surface has to say about a job.

    Attributes:
        verdict: Kind of the verdict. severity: of the verdict; None if either will do.
        named: Kinds of *all* findings that are a warning or worse, each with the ranks that it is
            about; None where the ranks do not matter.
        noted: Kinds that must be observed with severity "info"; other observations are allowed.
        clock: The one clock of the window.
        window: First step, last step and number of steps of the window.
        ranks: The rank universe of the window. seen: the ranks with rows in it.
        null: Metrics with no value on any rank.
        null_on: Metrics with no value on some ranks, with those ranks.
        zero: Metrics whose measured value is exactly 0.0. negative: metrics whose mean is below it.
        families: States of families; families that hold a finding of `named` need not be listed.
    """

    verdict: str
    outcome: Outcome
    severity: Severity | None = None
    named: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    noted: tuple[str, ...] = ()
    clock: Clock = "host"
    window: tuple[int | None, int | None, int] | None = None
    ranks: int = 1
    seen: tuple[int, ...] | None = None
    null: frozenset[str] = frozenset()
    null_on: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    zero: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    families: Mapping[str, State] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One entry of the catalogue.

    Attributes:
        name: Lower case with underscores. protects: the promise that it holds, in one sentence.
        make: Makes the job; the same one each time.
        shows: Kinds whose page in `docs/findings.md` takes this scenario as its real example.
    """

    name: str
    protects: str
    make: Callable[[], Job]
    expected: Expected
    shows: tuple[str, ...] = ()
