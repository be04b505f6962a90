"""The few options that every plugin takes, and their meaning."""

import json
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, Literal, get_args

from traintrace.errors import UsageError
from traintrace.flopfacts import COUNT, LEAST, MOST

LevelOption = Literal["auto", "full", "host", "step"]

# Shorter than a reading takes on some machines, and a day.
SHORTEST_INTERVAL_S: Final = 0.1
LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options of one traced run.

    Attributes:
        run_dir: Folder that holds runs, or the URL of one; made if missing.
        name: Name of this run; None makes one from the plugin and the time, or the job's id.
        level: "full" times phases on host and device, "host" on the host alone, "step" only input
            wait and step; "auto" starts at "full" and may go to "host" if tracing costs too much.
        enabled: False installs nothing and records nothing.
        max_steps: Stop recording after this many steps; training goes on untraced.
        warmup_steps: Treat this many first steps as warm-up; None finds the number.
        step_memory: Record the memory of each step (on an accelerator this resets its peak statistics).
        print_report: Print the report to stderr when the run ends.
        interval_s: Seconds between two readings of the machine, from 0.1 on; None reads densely at
            first and every 5 s later.
        retention_steps: The latest steps whose rows are kept one by one; older ones are folded into
            blocks. None keeps 200,000.
        keep_steps: First and last of the steps whose rows are kept one by one besides, however long the
            run; None keeps no others.
        publish_interval_s: Seconds between two transfers of new rows, where a run is published (its
            `run_dir` is a URL or on a network file system): what was sent so long ago at most survives
            the loss of a machine.
        wait_for_ranks_s: Seconds for which rank 0 waits for the other ranks to end before it makes the
            report without them.
        flops_per_step: Floating-point operations of one step on one rank, a multiplication with its
            addition being two; "count" counts those of a few real steps, which take longer for it and are
            left out of statistics. That results stay the same to the bit is proven without autocast, which is why
            nothing is counted under one for the CPU; under one for a GPU it is not proven. None leaves it at an
            estimate for known transformers.
        peak_tflops: What the device can do in the number format that trains [1e12 operations/s]; None
            looks it up by the device's exact name.
        profile_steps: First and last of the steps that the framework's profiler traces, into the run's
            folder; these steps take longer for it. None profiles nothing.

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
    interval_s: float | None = None
    retention_steps: int | None = None
    keep_steps: tuple[int, int] | None = None
    publish_interval_s: float = 60.0
    wait_for_ranks_s: float = 10.0
    flops_per_step: float | Literal["count"] | None = None
    peak_tflops: float | None = None
    profile_steps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        _check_text(
            "run_dir", str(self.run_dir) if isinstance(self.run_dir, Path) else self.run_dir
        )
        if self.name is not None:
            _check_text("name", self.name)
        if self.level not in get_args(LevelOption):
            raise UsageError(f"level={self.level!r}: use one of {', '.join(get_args(LevelOption))}")
        _check_count("max_steps", self.max_steps, least=1)
        _check_count("warmup_steps", self.warmup_steps, least=0)
        _check_count("retention_steps", self.retention_steps, least=1)
        check_steps("keep_steps", self.keep_steps)
        check_steps("profile_steps", self.profile_steps)
        if self.interval_s is not None:
            _check_seconds("interval_s", self.interval_s, least=SHORTEST_INTERVAL_S)
        _check_seconds("publish_interval_s", self.publish_interval_s, least=SHORTEST_INTERVAL_S)
        _check_seconds("wait_for_ranks_s", self.wait_for_ranks_s, least=0.0)
        if self.flops_per_step != COUNT:
            _check_positive("flops_per_step", self.flops_per_step, f'a number above 0, "{COUNT}"')
        check_peak(self.peak_tflops)

    def to_json(self) -> str:
        """Give the options as one line of JSON, e.g. for a command line."""
        return json.dumps(asdict(self) | {"run_dir": str(self.run_dir)})

    @classmethod
    def from_json(cls, text: str) -> "TraceOptions":
        """Read what `to_json` gave; what is missing has its default.

        Raises:
            UsageError: This is no JSON object, a key is unknown or a value impossible; it is named.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the options are no JSON ({error})") from error
        if not isinstance(content, dict):
            raise UsageError(f"the options are {type(content).__name__}, not an object with keys")
        known = [field.name for field in fields(cls)]
        unknown = [key for key in content if key not in known]
        if unknown:
            raise UsageError(f"no option {unknown[0]!r}; options are {', '.join(known)}")
        for field in fields(cls):
            value = content.get(field.name, field.default)
            if isinstance(field.default, bool) and not isinstance(value, bool):
                raise UsageError(f"{field.name}={value!r}: use true or false")
        for name in ("keep_steps", "profile_steps"):  # JSON has no tuples
            if isinstance(content.get(name), list):
                content[name] = tuple(content[name])
        return cls(**content)


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name}={value!r}: use a text that is not empty")


def _check_count(name: str, value: Any, *, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise UsageError(f"{name}={value!r}: use a number of at least {least}, or None")


def check_steps(name: str, value: Any) -> None:
    """Check a range of steps, first and last, or None.

    Raises:
        UsageError: It is none; the message calls it `name`.
    """
    if value is None:
        return
    whole = (
        isinstance(value, tuple) and len(value) == 2 and all(type(step) is int for step in value)
    )
    if not whole or not 1 <= value[0] <= value[1]:
        raise UsageError(f"{name}={value!r}: use the first and the last step, from 1, or None")


def check_peak(value: Any) -> None:
    """Check what a device is said to do [1e12 operations/s], or None.

    Raises:
        UsageError: It is no such number; the message calls it `peak_tflops`.
    """
    _check_positive("peak_tflops", value, "a number above 0 in 1e12 operations a second")


def _check_positive(name: str, value: Any, wanted: str) -> None:
    if value is None:
        return
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not LEAST <= value <= MOST:
        raise UsageError(f"{name}={value!r}: use {wanted}, or None")


def _check_seconds(name: str, value: Any, *, least: float) -> None:
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not least <= float(value) <= LONGEST_S:
        raise UsageError(f"{name}={value!r}: use seconds from {least:g} to {LONGEST_S:g}")
