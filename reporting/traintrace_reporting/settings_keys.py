"""The keys of `traintrace.yaml`: what each means, and which values it takes."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast, get_args

from traintrace.errors import TraintraceError, UsageError
from traintrace.options import LevelOption, TraceOptions
from traintrace_reporting.guard_contract import first_problem

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


def _one_of(*words: str) -> Callable[[object], str]:
    return lambda value: "" if value in words else f"use one of {', '.join(words)}"


def _yes_or_no(value: object) -> str:
    return "" if isinstance(value, bool) else "use true or false"


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value.strip() else "use a text"


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _whole(option: str) -> Callable[[object], str]:
    """Check a whole number, in the range that the option of this name has; null is the default."""

    def check(value: object) -> str:
        if value is None or _is_number(value, int):
            return _out_of_range(option, value)
        return "use a whole number, or null"

    return check


def _interval(value: object) -> str:
    if value is None or _is_number(value, int, float):
        return _out_of_range("interval_s", value)
    return "use a number of seconds such as 0.5 (PyYAML reads 1e-1 as a text), or null"


def _seconds(option: str) -> Callable[[object], str]:
    """Check seconds, in the range that the option of this name has; null is the default."""

    def check(value: object) -> str:
        if value is None:
            return ""
        if _is_number(value, int, float):
            return _out_of_range(option, value)
        return "use a number of seconds, or null"

    return check


def _out_of_range(option: str, value: object) -> str:
    """Say what the tracer itself says of a value: a range has one home."""
    try:
        TraceOptions(**cast("dict[str, Any]", {option: value}))
    except UsageError as error:
        return str(error).rpartition(": ")[2].replace("None", "null")
    return ""


def _guard(value: object) -> str:
    problem = None if value is None else first_problem(value)
    return "" if problem is None else problem.told


def _place_in_guard(value: object) -> Sequence[str]:
    problem = None if value is None else first_problem(value)
    return () if problem is None else problem.place


KEYS: Final = (
    Key(
        "mode",
        "summary",
        "summary",
        "What is recorded: `summary` traces steps, the only mode of `traintrace run`. "
        "`watch` is for `traintrace watch`, which takes a file with `summary` too.",
        _one_of(*MODES),
    ),
    Key(
        "history_enabled",
        "true, false",
        "true",
        "`false` removes the rank files once the summary is written: the report stays, and cannot be made anew.",
        _yes_or_no,
    ),
    Key(
        "history_retention",
        "steps",
        "200000",
        "So many of the latest steps keep a row each; older ones are folded into blocks. Sums stay exact.",
        _whole("retention_steps"),
        "--retention",
    ),
    Key(
        "interval",
        "seconds",
        "null",
        "Time between two readings of the machine; null reads densely at first and then every 5 s.",
        _interval,
        "--interval",
    ),
    Key(
        "guard",
        "mapping",
        "null",
        "The declaration of a guarded workload, kept in the run's manifest (below).",
        _guard,
        place=_place_in_guard,
    ),
    Key(
        "run_dir",
        "path or URL",
        "runs",
        "Folder that holds runs. A relative path starts at the folder of the settings file.",
        _text,
        "--run-dir",
    ),
    Key(
        "level",
        ", ".join(get_args(LevelOption)),
        "auto",
        "`full` times phases on host and device, `host` on the host alone, `step` only input wait and step; "
        "`auto` starts with `full` and goes to `host` if tracing costs too much.",
        _one_of(*get_args(LevelOption)),
        "--level",
    ),
    Key(
        "max_steps",
        "steps",
        "null",
        "Recording stops after so many steps; training goes on.",
        _whole("max_steps"),
        "--max-steps",
    ),
    Key(
        "warmup_steps",
        "steps",
        "null",
        "So many first steps are warm-up; null finds the number.",
        _whole("warmup_steps"),
        "--warmup-steps",
    ),
    Key(
        "step_memory",
        "true, false",
        "true",
        "The memory of each step is recorded; on an accelerator that resets its peak statistics.",
        _yes_or_no,
    ),
    Key(
        "print_report",
        "true, false",
        "true",
        "The report is printed to standard error when the run ends.",
        _yes_or_no,
    ),
    Key(
        "publish_interval",
        "seconds",
        "60",
        "Where a run is published (`run_dir` is a URL or on a network file system): time between two transfers "
        "of new rows. What was sent survives the loss of a machine.",
        _seconds("publish_interval_s"),
        "--publish-interval",
    ),
    Key(
        "wait_for_ranks",
        "seconds",
        "10",
        "The report waits so long for ranks and nodes that have not said how they ended, and is then made without "
        "them.",
        _seconds("wait_for_ranks_s"),
        "--wait-for-ranks",
    ),
    Key(
        "enabled",
        "true, false",
        "true",
        "`false` installs nothing and records nothing.",
        _yes_or_no,
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
