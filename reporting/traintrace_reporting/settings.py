"""Settings: what the command line says, else `traintrace.yaml`, else the defaults.

The file is looked for in the working directory and then in each folder around it. Values have the types that
PyYAML's `safe_load` gives them. Nothing is guessed: an unknown key, a key that stands twice and a value
that cannot be meant are refused with the key, the file and the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from traintrace.options import LevelOption, TraceOptions
from traintrace.publishing.location import is_url
from traintrace_reporting.guard_contract import contract_of, shown
from traintrace_reporting.settings_keys import KEYS, SettingsError

FILE_NAME: Final = "traintrace.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was set, by whoever had the last word; `KEYS` says what each of them means.

    Attributes:
        source: The file that was read; None if there is none.
    """

    mode: str = "summary"
    history_enabled: bool = True
    history_retention: int | None = None
    interval: float | None = None
    guard: Mapping[str, Any] | None = None
    run_dir: str = "runs"
    level: LevelOption = "auto"
    max_steps: int | None = None
    warmup_steps: int | None = None
    step_memory: bool = True
    print_report: bool = True
    publish_interval: float | None = None
    wait_for_ranks: float | None = None
    flops_per_step: float | Literal["count"] | None = None
    peak_tflops: float | None = None
    profile_steps: Sequence[int] | None = None
    enabled: bool = True
    source: Path | None = None

    def options(self, name: str | None = None) -> TraceOptions:
        """Give the options of a run with these settings.

        Args:
            name: Name of the run; None leaves it to the tracer.

        Raises:
            UsageError: A value is out of its range; the message names the option.
        """
        seconds = {
            "publish_interval_s": self.publish_interval,
            "wait_for_ranks_s": self.wait_for_ranks,
        }
        return TraceOptions(
            run_dir=self.run_dir,
            name=name,
            level=self.level,
            enabled=self.enabled,
            max_steps=self.max_steps,
            warmup_steps=self.warmup_steps,
            step_memory=self.step_memory,
            print_report=self.print_report,
            interval_s=self.interval,
            retention_steps=self.history_retention,
            keep_steps=self._measured_steps(),
            flops_per_step=self.flops_per_step,
            peak_tflops=self.peak_tflops,
            profile_steps=self._profiled_steps(),
            **{name: value for name, value in seconds.items() if value is not None},
        )

    def _profiled_steps(self) -> tuple[int, int] | None:
        return (
            None
            if self.profile_steps is None
            else cast("tuple[int, int]", tuple(self.profile_steps))
        )

    def _measured_steps(self) -> tuple[int, int] | None:
        if self.guard is None:
            return None
        contract = contract_of(self.guard)
        return contract.start_step, contract.end_step


def find_settings_file(start: Path) -> Path | None:
    """Give the settings file of `start` or of the nearest folder around it; None if there is none."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def load_settings(start: Path | None = None) -> Settings:
    """Read the settings file that holds for `start` (default: the working directory); defaults without one.

    Raises:
        SettingsError: The file cannot be read, or says something that cannot be meant.
    """
    path = find_settings_file(Path.cwd() if start is None else start.absolute())
    return Settings() if path is None else read_settings(path)


def read_settings(path: Path) -> Settings:
    """Read one settings file.

    Raises:
        SettingsError: It cannot be read, or says something that cannot be meant.
    """
    from traintrace_reporting.settings_file import line_within, read_entries

    known = {key.name: key for key in KEYS}
    values: dict[str, Any] = {}
    for name, value, line in read_entries(path):
        key = known.get(name)
        if key is None:
            raise SettingsError(
                f"{path}, line {line}: {name} is no key of the settings; there are {', '.join(known)}"
            )
        told = key.check(value)
        if told:
            place = key.place(value)
            for part in place:
                value = value[part]
            where = line_within(path, (name, *place)) or line
            called = ".".join((name, *map(_plain, place)))
            raise SettingsError(f"{path}, line {where}: {called}: {shown(value)}: {told}")
        values[name] = value
    if "run_dir" in values and not is_url(values["run_dir"]):
        values["run_dir"] = str(path.parent / values["run_dir"])
    return replace(Settings(), **values, source=path)


def _plain(key: str) -> str:
    return key if key.isprintable() and len(key) <= 40 else ascii(key)[:40]


def with_flags(settings: Settings, **flags: Any) -> Settings:
    """Give the settings with what the command line says; a flag that is None was not given."""
    return replace(settings, **{name: value for name, value in flags.items() if value is not None})
