"""The few options that every plugin takes, and their meaning."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from traintrace.errors import UsageError

LevelOption = Literal["auto", "full", "host", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options of one traced run.

    Attributes:
        run_dir: Folder that holds runs; made if missing.
        name: Name of this run; None makes one from the plugin and the time.
        level: "full" times phases on host and device, "host" on the host alone, "step" only input
            wait and step; "auto" starts at "full" and may go to "host" if tracing costs too much.
        enabled: False installs nothing and records nothing.
        max_steps: Stop recording after this many steps; training goes on untraced.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Record the memory of each step (on an accelerator this resets its peak statistics).
        print_report: Print the report to stderr when the run ends.

    Raises:
        UsageError: A value is impossible; the message names the option.
    """

    run_dir: str | Path = "runs"
    name: str | None = None
    level: LevelOption = "auto"
    enabled: bool = True
    max_steps: int | None = None
    warmup_steps: int | None = None
    step_memory: bool = True
    print_report: bool = True

    def __post_init__(self) -> None:
        if self.level not in get_args(LevelOption):
            raise UsageError(f"level={self.level!r}: use one of {', '.join(get_args(LevelOption))}")
        if self.max_steps is not None and self.max_steps < 1:
            raise UsageError(f"max_steps={self.max_steps!r}: use a number of at least 1, or None")
        if self.warmup_steps is not None and self.warmup_steps < 0:
            raise UsageError(f"warmup_steps={self.warmup_steps!r}: use 0 or more, or None")
