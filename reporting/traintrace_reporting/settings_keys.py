"""The keys of `traintrace.yaml`: what each means, and which values it takes."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, get_args

from traintrace.errors import TraintraceError
from traintrace.options import LevelOption
from traintrace_reporting import settings_checks

MODES: Final = ("summary", "watch")


class SettingsError(TraintraceError):
    """A settings file cannot be used; the message names the file, the line and the key."""


def _nowhere(_: object) -> Sequence[str]:
    return ()


class Key(NamedTuple):
    """A key of the settings file.

    Attributes:
        check: Says what is wrong with a value, or gives an empty string.
        flag: What sets it on the command line of `traintrace run`; empty if nothing does.
        place: Gives the keys that lead to what is wrong inside a value; none if it is the value itself.
    """

    name: str
    wants: str
    default: str
    meaning: str
    check: Callable[[object], str]
    flag: str = ""
    place: Callable[[object], Sequence[str]] = _nowhere


KEYS: Final = (
    Key(
        "mode",
        "summary",
        "summary",
        "What is recorded: `summary` traces steps, the only mode of `traintrace run`. "
        "`watch` is for `traintrace watch`, which takes a file with `summary` too.",
        settings_checks.one_of(*MODES),
    ),
    Key(
        "history_enabled",
        "true, false",
        "true",
        "`false` removes the rank files once the summary is written: the report stays, and cannot be made anew.",
        settings_checks.yes_or_no,
    ),
    Key(
        "history_retention",
        "steps",
        "200000",
        "So many of the latest steps keep a row each; older ones are folded into blocks. Sums stay exact.",
        settings_checks.whole("retention_steps"),
        "--retention",
    ),
    Key(
        "interval",
        "seconds",
        "null",
        "Time between two readings of the machine; null reads densely at first and then every 5 s.",
        settings_checks.interval,
        "--interval",
    ),
    Key(
        "guard",
        "mapping",
        "null",
        "The declaration of a guarded workload, kept in the run's manifest (below).",
        settings_checks.guard,
        place=settings_checks.place_in_guard,
    ),
    Key(
        "run_dir",
        "path or URL",
        "runs",
        "Folder that holds runs. A relative path starts at the folder of the settings file.",
        settings_checks.text,
        "--run-dir",
    ),
    Key(
        "level",
        ", ".join(get_args(LevelOption)),
        "auto",
        "`full` times phases on host and device, `host` on the host alone, `step` only input wait and step; "
        "`auto` starts with `full` and goes to `host` if tracing costs too much.",
        settings_checks.one_of(*get_args(LevelOption)),
        "--level",
    ),
    Key(
        "max_steps",
        "steps",
        "null",
        "Recording stops after so many steps; training goes on.",
        settings_checks.whole("max_steps"),
        "--max-steps",
    ),
    Key(
        "warmup_steps",
        "steps",
        "null",
        "So many first steps are warm-up; null finds the number.",
        settings_checks.whole("warmup_steps"),
        "--warmup-steps",
    ),
    Key(
        "step_memory",
        "true, false",
        "true",
        "The memory of each step is recorded; on an accelerator that resets its peak statistics.",
        settings_checks.yes_or_no,
    ),
    Key(
        "print_report",
        "true, false",
        "true",
        "The report is printed to standard error when the run ends.",
        settings_checks.yes_or_no,
    ),
    Key(
        "publish_interval",
        "seconds",
        "60",
        "Where a run is published (`run_dir` is a URL or on a network file system): time between two transfers "
        "of new rows. What was sent survives the loss of a machine.",
        settings_checks.amount("publish_interval_s", "a number of seconds"),
        "--publish-interval",
    ),
    Key(
        "wait_for_ranks",
        "seconds",
        "10",
        "The report waits so long for ranks and nodes that have not said how they ended, and is then made without "
        "them.",
        settings_checks.amount("wait_for_ranks_s", "a number of seconds"),
        "--wait-for-ranks",
    ),
    Key(
        "flops_per_step",
        "number, count",
        "null",
        "Floating-point operations of one step on a rank, for MFU; `count` counts those of a few real steps. "
        "null leaves it at an estimate for known transformers.",
        settings_checks.amount(
            "flops_per_step", "count or a number (PyYAML reads 1e12 as a text)", "count"
        ),
        "--flops-per-step",
    ),
    Key(
        "peak_tflops",
        "number",
        "null",
        "What a device can do, in 1e12 operations a second; null looks it up by the device's exact name.",
        settings_checks.amount("peak_tflops", "a number"),
        "--peak-tflops",
    ),
    Key(
        "profile_steps",
        "[first, last]",
        "null",
        "The framework's profiler traces these steps into the run's folder, and the report shows what the trace says; "
        "the steps take longer for it and are left out of statistics.",
        settings_checks.steps("profile_steps"),
        "--profile-steps",
    ),
    Key(
        "enabled",
        "true, false",
        "true",
        "`false` installs nothing and records nothing.",
        settings_checks.yes_or_no,
        "--disable",
    ),
)


def settings_table() -> str:
    """Give the keys as a table in Markdown, for docs/settings.md."""
    rows = [
        f"| `{key.name}` | {key.wants} | {key.default} | {f'`{key.flag}`' if key.flag else ''} | {key.meaning} |"
        for key in KEYS
    ]
    return "\n".join(
        ("| key | value | default | option | meaning |", "|---|---|---|---|---|", *rows)
    )
