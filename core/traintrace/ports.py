"""What a plugin brings into a session from its framework."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from traintrace.clock import DeviceClock
from traintrace.flopfacts import FlopFacts
from traintrace.recording.occurrences import Occurrence
from traintrace.recording.steps import StepCapture


@dataclass(frozen=True, slots=True)
class PluginIdentity:
    """Who traces: the plugin and the framework it knows."""

    plugin: str
    plugin_version: str
    framework: str
    framework_version: str


class MemoryReader(Protocol):
    """Reads what memory a step used on an accelerator.

    Attributes:
        lifetime_peak_bytes: Largest allocated peak so far; a reset makes the allocator forget it.
    """

    lifetime_peak_bytes: int

    def open_step(self) -> None:
        """A step begins: reset peaks where there are any."""

    def read(self, capture: StepCapture) -> None:
        """Fill in the peaks at the step's close."""


# The kind of occurrence that flags the steps in which it happens.
COMPILATION: Final = "compilation"


@dataclass(frozen=True, slots=True)
class UsedDevice:
    """An accelerator that this process uses.

    Attributes:
        index: Its number in this process.
        uuid: What the driver calls it, without "GPU-" before it; None if unknown.
    """

    index: int
    uuid: str | None = None


class Watch(Protocol):
    """Watches something beside training for one session; what it sees becomes events.

    Attributes:
        kind: What its occurrences are called, and what the reason in `unmeasured` is about.
        unmeasured: Why it cannot see them; None while it can.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102 - see above

    unmeasured: str | None

    def begin(self) -> None:
        """The span begins; called on the training thread."""

    def look(self) -> Sequence[Occurrence]:
        """Give what was seen since the last look; called by the drain, never waits."""

    def close(self) -> None:
        """Watch no more; called on the training thread. One more look follows."""


class StepProfiler(Protocol):
    """Profiles consecutive steps with the framework's own profiler; all calls come between steps.

    Attributes:
        why_stopped: Why the profile ended without a trace; None while it may give one.
    """

    why_stopped: str | None

    def start(self, step: int) -> str | None:
        """Begin with `step`; give why that cannot be, or None."""

    def mark(self, step: int) -> None:
        """Mark that `step` begins here, and the one before it ends."""

    def finish(self, path: Path | None) -> None:
        """End here, and write the trace whole or not at all; nothing is written if `path` is None."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What only the framework knows of its own surroundings.

    Attributes:
        cuda: Version of CUDA that it was built for; None without.
        seeds: Seed by generator, e.g. {"torch": 42}; empty where nobody knows.
    """

    cuda: str | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)


class FlopCounter(Protocol):
    """Counts the floating-point operations of a few steps while they run."""

    def begin(self, session: Any) -> None:
        """Count steps of `session`, which is being set up on this thread."""

    def before_backward(self, tensors: object) -> None:
        """A backward from these tensors is about to begin."""

    def enter(self, account: int) -> None:
        """The outermost call of a forward or a backward begins."""

    def leave(self, account: int) -> None:
        """It has ended."""

    def facts(self, asked: bool) -> FlopFacts:
        """Give what is known by now; `asked` says whether steps were to be counted. Called by the drain."""


Agreement = Callable[[int, str, Callable[[], str]], str]


@dataclass(frozen=True, slots=True)
class Ports:
    """What a plugin brings from its framework; None where it brings nothing.

    Attributes:
        memory: Reads step memory of the accelerator.
        device_clock: Times the accelerator.
        read_scalar: Turns a logged object (a tensor) into a float, or a `Deferred` one.
        agree_on_run: Makes all ranks of a job use one run: takes the run's number in this process,
            this rank's own mark and a function that makes the run; calls that on one rank, and gives
            what it gave on all of them.
        watches: Watch what the framework's runtime does beside training.
        used_devices: Gives the NVIDIA accelerators that this process uses by now; called on a thread of
            the tracer, and initialises none.
        packages: Distributions whose versions belong into the run's environment.
        flops: Counts operations, where the user asks for it.
        profiler: Makes what profiles a few steps, where the user asks for it.
        runtime: Gives what only the framework knows of its surroundings; cheap, initialises nothing.
    """

    memory: MemoryReader | None = None
    device_clock: DeviceClock | None = None
    read_scalar: Callable[[Any], object] | None = None
    agree_on_run: Agreement | None = None
    watches: tuple[Watch, ...] = ()
    used_devices: Callable[[], Sequence[UsedDevice]] | None = None
    packages: tuple[str, ...] = ()
    flops: FlopCounter | None = None
    profiler: Callable[[], StepProfiler] | None = None
    runtime: Callable[[], Runtime] | None = None
