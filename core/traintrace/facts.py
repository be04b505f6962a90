"""What was measured, as typed records: the one contract between recording and analysing.

Everything here is plain data. The store writes these records and reads them back; the analysis
imports them and nothing else of the core. None always means "not measured", never zero.
Times are integer nanoseconds. Moments (`*_ns` that are points in time) are on the host's monotonic
clock, shifted once per process so that they read as Unix time and ranks of one host compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from traintrace.flopfacts import DenseModel, FlopFacts
from traintrace.readings import DeviceReading, ProcessReading, SystemReading
from traintrace.stagefacts import Pipeline

RunStatus = Literal["running", "completed", "failed", "interrupted", "lost"]
Level = Literal["full", "host", "step"]

# Bits of the `flags` column of a step.
PARTIAL_GROUP = 1 << 0
UPDATE_SKIPPED = 1 << 1
UPDATE_SKIPPED_KNOWN = 1 << 2
LOOKAHEAD = 1 << 3
EPOCH_FIRST = 1 << 4
WARMUP = 1 << 5
COMPILED = 1 << 6
COMPILED_KNOWN = 1 << 7
GC = 1 << 8
CARRIED = 1 << 9
ABANDONED = 1 << 10
FLOPS_COUNTED = 1 << 11  # its operations were counted, so it took longer than it would have
PROFILED = 1 << 12  # a profiler was on, so it took longer than it would have

FLAG_NAMES: Mapping[int, str] = {
    PARTIAL_GROUP: "partial_group",
    UPDATE_SKIPPED: "update_skipped",
    LOOKAHEAD: "lookahead",
    EPOCH_FIRST: "epoch_first",
    WARMUP: "warmup",
    COMPILED: "compiled",
    GC: "gc",
    CARRIED: "carried",
    ABANDONED: "abandoned",
    FLOPS_COUNTED: "flops_counted",
    PROFILED: "profiled",
}


@dataclass(frozen=True, slots=True)
class StepRow:
    """One completed optimizer update of one rank; row k covers close(k-1) to close(k).

    Attributes:
        step: 1-based number of the completed step in this process and attempt; steps that were
            abandoned afterwards keep theirs.
        framework_step: The framework's own counter after the step, if it has one.
        epoch: 0-based epoch, if known.
        micro_batches: Micro-batches whose gradients went into this update.
        samples: Sum of true batch sizes over the micro-batches.
        tokens: Tokens without padding. padded_tokens: tokens with it.
        start_ns: Start of the row: the close of the step before.
        open_ns: The moment the group's first batch was requested.
        duration_ns: Length of the row, so `start_ns + duration_ns` is the next row's start.
        account_ns: Nanoseconds per in-step account, from `open_ns` to the close. An absent account
            was not measured in this step.
        calls: Number of outermost calls per phase.
        device_ns: Nanoseconds per phase on the device clock; empty without one.
        peak_allocated_bytes: Allocator's peak on the tracked device during the step.
        peak_reserved_bytes: The allocator's peak of reserved memory during the step.
        rss_bytes: Resident memory of this process at the step's close.
        flags: Bits named in `FLAG_NAMES`.
        gc_ns: Time in Python's garbage collector on the training thread, from `open_ns` to the
            close; it is part of the accounts that were open. None if it was not watched.
    """

    step: int
    framework_step: int | None
    epoch: int | None
    micro_batches: int
    samples: int | None
    tokens: int | None
    padded_tokens: int | None
    start_ns: int
    open_ns: int
    duration_ns: int
    account_ns: Mapping[str, int]
    calls: Mapping[str, int]
    device_ns: Mapping[str, int]
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    rss_bytes: int | None
    flags: int
    gc_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Time of one account outside its usual place, summed over one row.

    Attributes:
        step: The step whose row holds it; one more than the last completed step for time after it.
        account: A between-step account, or an in-step account that occurred between steps.
        inside: True if the time lies between the step's open and its close.
    """

    step: int
    account: str
    inside: bool
    ns: int
    calls: int


@dataclass(frozen=True, slots=True)
class Region:
    """Time that user regions of one name took within one row; a refinement, never an addition."""

    step: int
    name: str
    ns: int
    calls: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value logged by the user or the framework, at the step that was open."""

    step: int
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once: an exception, an epoch, an evaluation, a fault of the tracer.

    Attributes:
        at_ns: When it happened; where it has a length, when it began.
        kind: A short lower-case word: "exception", "epoch", "evaluation", "prediction",
            "checkpoint", "tuning", "gc", "compilation", "allocator_retry", "out_of_memory", or what
            a plugin notes.
        step: The step that was open or came next; of an epoch, its first.
        detail: One line of text; holds no path and no argument values.
        duration_ns: How long it took, all that ran inside it included; None where it has no length
            or none was recorded.
    """

    at_ns: int
    kind: str
    step: int
    detail: str
    duration_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Exact sums over the whole traced span of one rank and attempt, rows or no rows.

    Attributes:
        account_ns: Nanoseconds per account that occurred at least once. They sum to `wall_ns`.
        inside_ns: The part of each account that lay inside completed steps.
        calls: Outermost calls per account.
        wall_ns: From the start of the span to the last entry that was folded in.
        start_ns: Start of the span.
        steps: Completed steps that count, as do all sums of work below.
        steps_aborted: Steps that were dropped, `steps_abandoned` included: completed steps that were
            given up afterwards. Those are the steps up to this number.
        dropped_rows: Completed steps that are in the sums and in no row.
        transitions: Entries that the training thread appended to its journal.
        foreign_calls: Hook calls on other threads, which were not counted.
        unbalanced: Leaves that matched no entry, and entries that nothing left.
        dropped_events: Events beyond those that are kept.
        gc_ns: Time in Python's garbage collector on the training thread, between steps too; it is
            part of the accounts that were open. None if it was not watched.
    """

    account_ns: Mapping[str, int]
    inside_ns: Mapping[str, int]
    calls: Mapping[str, int]
    wall_ns: int
    start_ns: int
    steps: int
    steps_aborted: int
    dropped_rows: int
    micro_batches: int
    samples: int | None
    tokens: int | None
    padded_tokens: int | None
    updates_skipped: int | None
    epochs: int | None
    transitions: int
    foreign_calls: int
    unbalanced: int
    steps_abandoned: int = 0
    dropped_events: int = 0
    gc_ns: int | None = None

    @property
    def last_step(self) -> int:
        """Give the number of the step that was completed last."""
        return self.steps + self.steps_abandoned


@dataclass(frozen=True, slots=True)
class LoaderSetup:
    """How the training data loader is configured; None where it is not a torch DataLoader.

    Attributes:
        reads_for_all: True if rank 0 reads the batches of all ranks and hands them on, as
            accelerate's dispatch mode does; None also where only the loader's iterator was seen.
    """

    workers: int | None = None
    prefetch_factor: int | None = None
    pin_memory: bool | None = None
    persistent: bool | None = None
    reads_for_all: bool | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration that a reader needs to judge the numbers; None means unknown.

    Attributes:
        batch_bytes: Bytes of the tensors in one batch of the training loader, as first seen.
        dense: What 6ND needs to know of a known transformer of which every parameter trains.
    """

    strategy: str | None = None
    device_kind: str | None = None
    device_name: str | None = None
    device_count: int | None = None
    precision: str | None = None
    compiled: bool | None = None
    accumulation: int | None = None
    batch_size: int | None = None
    batch_bytes: int | None = None
    loader: LoaderSetup = field(default_factory=LoaderSetup)
    cpu_count: int | None = None
    omp_threads: int | None = None
    parameter_count: int | None = None
    dense: DenseModel | None = None


@dataclass(frozen=True, slots=True)
class TracerCost:
    """What tracing itself cost this rank.

    Attributes:
        hot_transition_ns: Price of one transition in a hot loop in this process: the floor.
        in_situ_transition_ns: Price of one transition inside a real step as measured once on this machine by
            `traintrace doctor`; None if it was never measured here.
        setup_s: Seconds spent before the traced span. finish_s: seconds spent after it; None until then.
        drain_s: CPU seconds of the threads that write rows and read the machine.
    """

    hot_transition_ns: float
    in_situ_transition_ns: float | None
    setup_s: float
    finish_s: float | None
    drain_s: float


@dataclass(frozen=True, slots=True)
class RankFacts:
    """All that one rank recorded in one attempt.

    Attributes:
        columns: The requested columns of the `steps` table by name, in step order, all equally long.
            Names are those of the table: `step`, `start_ns`, `input_wait_ns`, `forward_calls`, ...
        unmeasured: Reason by account or signal that could not be measured, e.g.
            {"h2d": "no device", "forward": "model runs inside a compiled function"}.
        device_clock: Name of the device clock in use, None on the host clock alone.
        system, process, devices: Readings in time order; empty where none were taken. `system` is
            there on one rank of each node only.
        seen_ns: The last moment at which the rank is known to have been alive [ns, Unix time of its own
            clock]; None if its file does not say.
        flops: What is known of its floating-point work; None if its file does not say.
        pipeline: Stages and queues of the process and its children; None if it marked none.
    """

    rank: int
    attempt: int
    node: int
    status: RunStatus
    level: Level
    device_clock: str | None
    setup: Setup
    cost: TracerCost
    totals: Totals
    columns: Mapping[str, Sequence[int | None]]
    spans: Sequence[Span]
    regions: Sequence[Region]
    scalars: Sequence[Scalar]
    events: Sequence[Event]
    unmeasured: Mapping[str, str]
    warnings: Sequence[str]
    process_peak_allocated_bytes: int | None = None
    system: Sequence[SystemReading] = ()
    process: Sequence[ProcessReading] = ()
    devices: Sequence[DeviceReading] = ()
    seen_ns: int | None = None
    flops: FlopFacts | None = None
    pipeline: Pipeline | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and provenance; never a host name, a path or an argument.

    Attributes:
        cpu: What the processor calls itself; None if the system does not say.
        flags: Variables of the environment that change speed or results, from a closed list; a value
            that may be a path reads "set".
    """

    python: str
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    git_commit: str | None = None
    git_dirty: bool | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    cpu: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: every rank and attempt of one job, as far as it can be read.

    Attributes:
        world_size: Ranks that the job was started with, whether or not they are in `ranks`.
        exit_code: Exit code of training where a launcher saw it; else None.
        started_at: Unix seconds. duration_s: seconds from the first span's start to the last one's
            end; None if no rank left a record.
        warnings: What is missing of the run, and what else a reader must know of its record.
    """

    name: str
    id: str
    status: RunStatus
    exit_code: int | None
    plugin: str
    plugin_version: str
    framework: str
    framework_version: str
    tool_version: str
    started_at: float
    duration_s: float | None
    world_size: int
    nodes_expected: int
    environment: Environment
    ranks: Sequence[RankFacts]
    warnings: Sequence[str] = ()
