"""What `traintrace run` is asked for."""

from dataclasses import dataclass

from traintrace.launch import Target
from traintrace.options import TraceOptions
from traintrace_reporting.settings import Settings


@dataclass(frozen=True, slots=True)
class Launch:
    """What `traintrace run` was asked for.

    Attributes:
        torchrun: Flags of torchrun, as they were given.
        options: The settings as the tracer takes them, with the name of the run if one was given.
    """

    target: Target
    torchrun: tuple[str, ...]
    settings: Settings
    options: TraceOptions
