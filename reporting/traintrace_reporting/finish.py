"""From a run folder to its report: read, analyse, summarise, write, print.

Plugins import this when a run ends and not before: it brings the analysis and the drawing.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from traintrace import Run, atomic, open_run
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.faults import FaultReporter
from traintrace_reporting.endings import outcome_notes
from traintrace_reporting.strict_json import parse

if TYPE_CHECKING:
    from traintrace_analysis.traces import Trace

JSON_NAME: Final = "final_summary.json"
TEXT_NAME: Final = "final_summary.txt"
READS_UP_TO: Final = (0, 4)
WINDOW_STEPS: Final = 10_000
_VERSION: Final = re.compile(r"\d{1,9}\.\d{1,9}")


class Summary(dict[str, Any]):
    """What `final_summary.json` holds, as a dictionary."""

    def flat(self) -> dict[str, float]:
        """Give the numbers for an experiment tracker: `traintrace/step_time/median_ms`, ..."""
        from traintrace_reporting.summary import flatten

        return dict(flatten(self))


def finish_run(run: Run | Path, *, print_report: bool, stream: TextIO | None) -> Summary:
    """Make the report of a run that has ended: write its files, and print it if asked to.

    A report that cannot be written or printed gives one warning; it does not raise.

    Args:
        run: The run, or its folder. A run whose disk failed has its rows in memory only.
        print_report: Print the report too.
        stream: Where to print; None for standard error.

    Raises:
        RunReadError: The run cannot be read.
    """
    faults = FaultReporter()
    summary = summarise_run(run)
    folder = run if isinstance(run, Path) else run.folder
    write_report(folder, summary, faults)
    if print_report:
        place = run.place if isinstance(run, Run) else None
        _print(summary, place or str(_short(folder)), stream or sys.stderr, faults)
    return summary


def summarise_run(
    run: Run | Path,
    *,
    window_steps: int = WINDOW_STEPS,
    traces: Sequence[Path] = (),
    peak_tflops: float | None = None,
) -> Summary:
    """Read, analyse and summarise a run, or the run in a folder; writes nothing.

    Args:
        run: The run, or its folder.
        window_steps: At most so many of the latest common steps are looked at one by one.
        traces: Trace files of a profiler, or folders of them; none takes those that lie in the run's folder.
        peak_tflops: What the devices can do [1e12 operations/s]; None takes what the run says.

    Raises:
        RunReadError: The run, or a trace that was named, cannot be read.
    """
    # A wrong path fails here, before NumPy is loaded.
    opened = open_run(run) if isinstance(run, Path) else run
    from traintrace_analysis import REQUIRED_COLUMNS, analyse
    from traintrace_reporting.summary import summarise

    facts = opened.facts(REQUIRED_COLUMNS, latest=window_steps)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    read, notes = _traces_of(opened.folder, traces)
    analysis = analyse(facts, window_steps=window_steps, traces=read, peak_tflops=peak_tflops)
    summary = Summary(summarise(facts, analysis, generated_at=now))
    summary["warnings"] += notes
    summary["warnings"] += outcome_notes(opened.manifest.training)
    if opened.manifest.guard is not None:
        from traintrace_reporting.guard_section import add_guard

        add_guard(summary, opened)
    return summary


def _traces_of(folder: Path, named: Sequence[Path]) -> tuple[Sequence["Trace"], list[str]]:
    """Read the traces that were named, else those that the run took; and say what was not read."""
    if not named and not (folder / "traces").is_dir():
        return (), []
    from traintrace_reporting.traces.places import given_traces, own_traces

    return (given_traces(named), []) if named else own_traces(folder)


def read_or_make(path: Path) -> Summary:
    """Give the summary of a run folder or of a summary file; make and write what a folder lacks.

    A summary is used again only if the run has ended and wrote nothing since. A run that is still
    running is summarised as it stands, and nothing is written.

    Raises:
        RunReadError: Neither a summary nor a run can be read; the message names the file.
    """
    if not path.is_dir():
        return read_summary(path)
    try:
        run: Run | None = open_run(path)
    except NewerSchemaError:
        raise
    except RunReadError:
        if not (path / JSON_NAME).exists():
            raise
        run = None  # a summary without its run, as after a copy
    summary = _kept_summary(path, run)
    if summary is None:
        summary = summarise_run(path)
    elif (path / TEXT_NAME).exists():
        return summary
    if summary["run"]["status"] != "running":
        write_report(path, summary, FaultReporter())
    return summary


def is_current(run: Run, summary: Summary) -> bool:
    """Tell whether the summary in a run's folder says what its manifest and rank files say.

    A process that was stopped, and taken for lost, may have gone on writing; a rank that was still at
    work when rank 0 made the report has ended since, or was lost.
    """
    path = run.folder / JSON_NAME
    if any(attempt["status"] == "running" for attempt in summary["run"]["attempts"]):
        return False
    return summary["run"]["status"] == run.status and path.stat().st_mtime >= run.written_at


def _kept_summary(path: Path, run: Run | None) -> Summary | None:
    """Give the summary in a run folder, None if it has to be made anew."""
    if run is not None and run.manifest.status == "running":
        return None
    try:
        summary = read_summary(path / JSON_NAME)
    except NewerSchemaError:
        raise
    except RunReadError:
        return None
    if run is None or not run.locations:  # without its rank files a run can be summarised no more
        return summary
    return summary if _is_newest(summary) and is_current(run, summary) else None


def _is_newest(summary: Summary) -> bool:
    """Tell whether a summary has all that this version would write; its run can be read again if not."""
    return tuple(map(int, summary["schema_version"].split("."))) == READS_UP_TO


def read_summary(path: Path) -> Summary:
    """Read a summary file and check it against the schema of its version.

    Raises:
        RunReadError: The file is missing, is no JSON, or is no summary; the message says which.
        NewerSchemaError: It was written by a newer traintrace.
    """
    try:
        content = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunReadError(f"{path}: no such file or folder") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunReadError(f"{path}: cannot be read as JSON ({error})") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise RunReadError(
            f"{path}: not a traintrace summary (its schema_version is {version!r}, expected a "
            'version such as "0.1")'
        )
    if tuple(map(int, version.split("."))) > READS_UP_TO:
        raise NewerSchemaError(
            f"{path}: written with schema {version}, newer than this traintrace reads; "
            "upgrade traintrace-reporting"
        )
    from traintrace_reporting.schema import validate

    try:
        validate(content)
    except RunReadError as error:
        raise RunReadError(f"{path}: {error}") from error
    return Summary(content)


def write_report(folder: Path, summary: Summary, faults: FaultReporter) -> None:
    """Write `final_summary.json` and `final_summary.txt`, each whole or not at all.

    Afterwards the summary's artifacts name them; they name nothing if that failed.
    """
    from traintrace_reporting.text import render_text

    summary["artifacts"] = {"json": JSON_NAME, "text": TEXT_NAME}
    try:
        content = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
        atomic.write_texts(
            {folder / JSON_NAME: content + "\n", folder / TEXT_NAME: render_text(summary)}
        )
    except OSError as error:
        summary["artifacts"] = {}
        faults.warn(
            f"the report of {folder} could not be written ({error}); "
            f"`traintrace report {folder}` makes it again"
        )


def _print(summary: Mapping[str, Any], place: str, stream: TextIO, faults: FaultReporter) -> None:
    from traintrace_reporting.terminal import print_report

    try:
        print_report(summary, file=stream, folder=place)
        stream.flush()
    # ValueError: the stream is closed.
    except (OSError, ValueError) as error:
        faults.warn(f"the report could not be printed ({error})")


def _short(folder: Path) -> Path:
    """Give `folder` as a user standing in the working directory would write it."""
    try:
        return folder.relative_to(Path.cwd())
    except (ValueError, OSError):
        return folder
