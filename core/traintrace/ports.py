"""What a plugin brings into a session from its framework."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from traintrace.clock import DeviceClock
from traintrace.steps import StepCapture


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
        packages: Distributions whose versions belong into the run's environment.
    """

    memory: MemoryReader | None = None
    device_clock: DeviceClock | None = None
    read_scalar: Callable[[Any], object] | None = None
    agree_on_run: Agreement | None = None
    packages: tuple[str, ...] = ()
