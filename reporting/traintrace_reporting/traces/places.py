"""Which trace files belong to a run, and to which rank each."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from traintrace.errors import RunReadError
from traintrace_analysis.traces import Trace
from traintrace_reporting.traces.kineto import read_trace

# Where `profile_steps` writes, in the folder of a run.
OWN_FOLDER: Final = "traces"
_ENDINGS: Final = (".json", ".json.gz")
_OWN: Final = re.compile(r"rank-(\d{1,9})(?:\.a(\d{1,9}))?\.json\.gz")
_RANK: Final = re.compile(r"rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
# A report that nobody asked for traces must not take minutes over those of a thousand ranks.
MOST_OWN_BYTES: Final = 16 * 10**6


def given_traces(places: Iterable[Path]) -> list[Trace]:
    """Read the traces that a user named: files, and all trace files in folders.

    Raises:
        RunReadError: One cannot be read, a folder has none, or two are of one rank; the message names it.
    """
    traces: list[Trace] = []
    read: set[Path] = set()
    for place in places:
        files = _files_in(place) if place.is_dir() else [place]
        if not files:
            raise RunReadError(f"{place}: holds no trace ({' or '.join(_ENDINGS)})")
        for file in files:
            trace, known = _read(file), file.resolve()
            if trace.rank is None and known in read:
                raise RunReadError(f"{file}: is given twice; give one trace a rank")
            read.add(known)
            traces.append(trace)
    ranks = [trace.rank for trace in traces if trace.rank is not None]
    for trace in traces:
        if trace.rank is not None and ranks.count(trace.rank) > 1:
            both = " and ".join(one.label for one in traces if one.rank == trace.rank)
            raise RunReadError(f"{both} are of one rank, {trace.rank}; give one trace a rank")
    return traces


def own_traces(folder: Path) -> tuple[list[Trace], list[str]]:
    """Read the traces that a run took of itself, of its latest attempt.

    Returns:
        The traces, and in words which files were not read and why.
    """
    found = [
        (int(match[2] or 0), int(match[1]), path)
        for path in _listed(folder / OWN_FOLDER)
        if (match := _OWN.fullmatch(path.name)) is not None
    ]
    attempt = max((entry[0] for entry in found), default=0)
    traces: list[Trace] = []
    notes: list[str] = []
    left, passed = MOST_OWN_BYTES, []
    for _, rank, path in sorted(entry for entry in found if entry[0] == attempt):
        try:
            size = path.stat().st_size
            if size > left and traces:
                passed.append(rank)
                continue
            left -= size
            traces.append(replace(_read(path), rank=rank))
        except (RunReadError, OSError) as error:
            notes.append(f"A trace was not read: {path.name}: {_without_path(error, path)}.")
    if passed:
        ranks = (
            f"rank {passed[0]}" if len(passed) == 1 else f"{len(passed)} ranks from {passed[0]} on"
        )
        notes.append(
            f"Traces of {ranks} were not read; `traintrace report RUN --trace RUN/{OWN_FOLDER}` does."
        )
    return traces, notes


def _read(path: Path) -> Trace:
    trace = read_trace(path)
    if trace.rank is None and (match := _RANK.search(path.name)) is not None:
        return replace(trace, rank=int(match[1]))
    return trace


def _files_in(folder: Path) -> Sequence[Path]:
    return [path for path in _listed(folder) if path.name.endswith(_ENDINGS) and path.is_file()]


def _listed(folder: Path) -> Sequence[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _without_path(error: Exception, path: Path) -> str:
    """Say what is wrong; where the run lies is not for whoever reads its report."""
    return str(error).replace(str(path), "").lstrip(": ") or type(error).__name__
