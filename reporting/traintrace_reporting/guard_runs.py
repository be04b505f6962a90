"""Start the runs of `traintrace guard pairs`: each in a process of its own, as `traintrace run` would."""

import glob
import os
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from traintrace.errors import RunReadError, TraintraceError, UsageError
from traintrace.publishing.location import is_url, location
from traintrace.runs.claims import safe_name
from traintrace_reporting.comparing import Input, read_input
from traintrace_reporting.guard_process import GuardStopped, run_quietly

# So much of what a failed run printed is shown [lines].
_SHOWN: Final = 20
_READ: Final = 1 << 17  # bytes
_TRACEBACK: Final = "Traceback (most recent call last)"
_OURS: Final = ("traintrace", "run")


class RunFailed(TraintraceError):
    """A command failed or trained nothing; the message names the command."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is run for one side.

    Attributes:
        name: "A" or "B".
        text: The command as it was given, for messages.
        words: What follows `traintrace run`: its options, the script, the script's arguments.
        folder: Where it is started; None for the working directory.
    """

    name: str
    text: str
    words: tuple[str, ...]
    folder: Path | None = None


def side_of(name: str, text: str, folder: Path | None) -> Side:
    """Take a command line apart, as a shell without variables, pipes or patterns would.

    Raises:
        UsageError: A quotation has no end, or nothing is left to run.
    """
    flag = f"--{name.lower()}"
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {error}") from error
    if words[:2] == _OURS:
        words = words[2:]
    if not words or Path(words[0]).name.startswith("python"):
        raise UsageError(
            f"{flag} {text!r}: give what follows `traintrace run`, such as 'train.py --lr 0.1'"
        )
    return Side(name, text, words, folder)


def absolute(run_dir: str) -> str:
    """Give a folder of runs that means the same from every working directory."""
    return run_dir if is_url(run_dir) else str(Path(run_dir).absolute())


def train(side: Side, run_dir: str, name: str) -> Input:
    """Train once and give the run's summary.

    Raises:
        RunFailed: Training failed, recorded no step, or made a second run; what it printed last is in
            the message.
        GuardStopped: A signal ended it.
        RunReadError: The run's summary cannot be used.
    """
    command = [
        *(sys.executable, "-m", "traintrace_reporting", "run"),
        *("--run-dir", run_dir, "--run-name", name, *side.words),
    ]
    with tempfile.TemporaryFile() as printed:
        try:
            code = run_quietly(command, side.folder, printed)
        except GuardStopped as stopped:
            raise GuardStopped(f"{stopped} in run {name}; nothing was decided") from stopped
        if code:
            raise RunFailed(
                f"{side.name} failed with exit code {code}: {side.text}{_last(printed)}"
            )
        place = location(run_dir) / safe_name(name)
        try:
            made = read_input(place.text)
        except RunReadError as error:
            raise RunFailed(
                f"{side.name} ended, but its run cannot be read ({error}); the command must not set --run-dir, "
                f"--run-name or --disable: {side.text}{_last(printed)}"
            ) from error
        if not made.summary["counts"]["steps"]:
            raise RunFailed(f"{side.name} trained no step: {side.text}{_last(printed)}")
        _refuse_second_run(side, made.path.parent)
        return made


def _refuse_second_run(side: Side, run: Path) -> None:
    """Refuse a command that trained twice, of which the first run alone would be judged."""
    others = sorted(one.name for one in run.parent.glob(f"{glob.escape(run.name)}-*"))
    if others:
        raise RunFailed(
            f"{side.name} made more than one run ({', '.join((run.name, *others))}), and which of them "
            f"counts is not known; train once in a command: {side.text}"
        )


def _last(printed: IO[bytes]) -> str:
    """Give what was printed last, or up to the end of the last traceback: our own report follows it."""
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _READ))
    lines = printed.read().decode("utf-8", "replace").splitlines()
    end = len(lines)
    begun = [place for place, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    if begun:
        after = range(begun[-1] + 1, len(lines))
        end = next((place + 1 for place in after if lines[place][:1].strip()), end)
    return "".join(f"\n  {line}" for line in lines[max(0, end - _SHOWN) : end])
