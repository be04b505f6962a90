"""Get a published run onto this machine, so that it is read like any other."""

import os
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from traintrace.errors import RunReadError
from traintrace.publishing.assembly import assemble
from traintrace.publishing.layout import (
    RANKS,
    finished_ranks,
    rank_path,
    segments_of_ranks,
    stem_of,
)
from traintrace.publishing.leftovers import spooled_ranks
from traintrace.publishing.location import location
from traintrace.publishing.patience import within
from traintrace.publishing.place import Location
from traintrace.publishing.publisher import INTERVAL_S
from traintrace.publishing.spool import fetched_folder, one_file, remove_empty

_REPORT: Final = ("final_summary.json", "final_summary.txt")
_NOTES: Final = ("manifest.json", *_REPORT)
_OUTCOMES: Final = "nodes/"
# A temporary file that nobody has written to for so long was left by a process that was killed.
_FORGOTTEN_S: Final = 600.0
# The end of a run waits so long at most for its report to be sent.
SEND_S: Final = 30.0


def fetch_run(place: str | Path) -> Path:
    """Give a folder of this machine that holds the run at `place`, as it stands now.

    A rank that has not ended, or died, is put together from its segments. A local run without any is given
    as it is. What was fetched before is used again where it has not changed.

    Args:
        place: URL of a run, or the path of its folder.

    Returns:
        The run's folder; if it was fetched, below the folder for temporary files.

    Raises:
        RunReadError: There is no run, or the place cannot be reached; the message names it.
        OSError: Nothing can be written on this machine.
    """
    try:
        source = location(place)
        if source.local is not None and not source.local.is_dir():
            raise RunReadError(f"{source}: no such run folder")
        files = source.files()
        if source.local is not None and not segments_of_ranks(files) and not spooled_ranks(source):
            return source.local
    except OSError as error:
        raise RunReadError(f"{place}: cannot be read ({error})") from error
    if not any(path in _NOTES or path.startswith((RANKS, "segments/")) for path in files):
        raise RunReadError(f"{source}: no run here")
    folder = fetched_folder(source)
    try:
        _bring(source, files, folder)
    except (OSError, sqlite3.Error) as error:
        raise RunReadError(f"{source}: cannot be fetched to {folder} ({error})") from error
    return folder


def send_report(place: Location, deadline_s: float = SEND_S) -> None:
    """Write a report that was made in the fetched folder to the place itself; one it has already is left.

    Raises:
        OSError: The place cannot be written, or does not answer.
    """
    folder = fetched_folder(place)

    def send() -> None:
        for name in _REPORT:
            made, there = folder / name, place / name
            if not made.exists():
                continue
            with suppress(FileNotFoundError):
                if there.modified() == made.stat().st_mtime:
                    continue
            there.upload(made)

    within(deadline_s, str(place), send)


def forget_fetched(place: Location) -> None:
    """Remove what was fetched of a run."""
    folder = fetched_folder(place)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # other runs have been fetched as well
        folder.mkdir()
        remove_empty(folder)


def _bring(source: Location, files: list[str], folder: Path) -> None:
    finished = finished_ranks(files)
    segments = segments_of_ranks(files)
    spooled = spooled_ranks(source)  # what this machine has itself is newer than what it sent
    expected = {*finished, *segments, *spooled}
    for old in (folder / RANKS).iterdir():
        if stem_of(old) not in expected and not _is_being_written(old):
            old.unlink(missing_ok=True)
    for stem in sorted(finished):
        _copy(source / rank_path(stem), folder / rank_path(stem))
    for stem, paths in sorted(segments.items()):
        if stem not in finished and stem not in spooled:
            _assemble_rank(source, paths, folder / rank_path(stem))
    for stem, file in spooled.items():
        if stem not in finished:
            _copy_spooled(file, folder / rank_path(stem))
    for name in _NOTES:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    for path in files:
        if path in _NOTES or path.startswith(_OUTCOMES):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _copy(source / path, folder / path)


def _is_being_written(path: Path) -> bool:
    """Say whether another process that fetches the run may be at this temporary file."""
    try:
        return path.suffix == ".tmp" and time.time() - path.stat().st_mtime < _FORGOTTEN_S
    except FileNotFoundError:
        return True


def _copy(source: Location, target: Path) -> None:
    """Copy a file with the time of its last change, unless the copy of that time is there."""
    changed = source.modified()
    if changed is not None and target.exists() and target.stat().st_mtime == changed:
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        source.download(temporary)
        if changed is not None:
            os.utime(temporary, (changed, changed))
            changed = temporary.stat().st_mtime
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _copy_spooled(file: Path, target: Path) -> None:
    """Copy a rank's file as of now; its process may be at work."""
    written = max(path.stat().st_mtime for path in (file, Path(f"{file}-wal")) if path.exists())
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with one_file(file, str(file)) as whole:
            shutil.copyfile(whole, temporary)
        os.utime(temporary, (written, written))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _assemble_rank(source: Location, paths: Mapping[int, str], target: Path) -> None:
    """Put a rank together; the time of its file says until when nobody need worry about it."""
    data: dict[int, bytes] = {}
    for number, path in paths.items():
        with suppress(OSError):  # one that cannot be had is missing, which the file then says
            data[number] = (source / path).read_bytes()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        result = assemble(data, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    changed = (source / paths[max(paths)]).modified()
    if changed is not None:
        # The next segment is not due before; a rank that was killed must not look alive for longer.
        heard = changed + float(result.about.get("interval_s", INTERVAL_S))
        moment = min(heard, time.time())
        os.utime(target, (moment, moment))
