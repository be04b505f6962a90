"""Where a rank of a published run keeps its file until it has been sent: on a disk of its own machine."""

import getpass
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from traintrace.publishing.filesystems import network_file_system
from traintrace.publishing.layout import stem_of
from traintrace.publishing.place import Location

# Where temporary files may go besides, if that is on a network file system as well.
_ELSEWHERE: Final = ("/tmp", "/var/tmp", "/dev/shm")
_ATTEMPTS: Final = 20


def own_folder() -> Path:
    """Give this user's folder among temporary files, on a disk of this machine; others may not look into it.

    Raises:
        OSError: It cannot be made, or it is somebody else's.
    """
    folder = _user_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(folder):
        raise PermissionError(f"{folder} belongs to another user")
    return folder


def _is_ours(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()


def _user_folder() -> Path:
    user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    return Path(_local_disk(), f"traintrace-{user}")


def _local_disk() -> str:
    usual = tempfile.gettempdir()
    for path in (usual, *_ELSEWHERE):
        if network_file_system(path) is None and os.access(path, os.W_OK):
            return path
    return usual


def spool_folder(place: Location) -> Path:
    """Make the folder in which the ranks of this machine record what is published at `place`.

    It is laid out like a run folder.

    Raises:
        OSError: It cannot be made.
    """
    return _make("spool", place)


def existing_spool(place: Location) -> Path | None:
    """Give the folder in which ranks of this machine recorded the run at `place`; None if there is none."""
    try:
        user, folder = _user_folder(), _user_folder() / "spool" / _name_for(place)
        return folder if folder.is_dir() and _is_ours(user) else None
    except OSError:
        return None


@contextmanager
def one_file(rank_file: Path, location: str) -> Iterator[Path]:
    """Give a rank's file without a log beside it, made whole beside it if it has one or is in memory.

    Args:
        rank_file: The file that the writer began with.
        location: What to open for reading: its path, or a shared in-memory name.

    Raises:
        sqlite3.Error: It cannot be read, or not be copied.
    """
    log = Path(f"{rank_file}-wal")
    if not location.startswith("file:") and not log.exists():
        yield rank_file
        return
    copy = rank_file.with_name(f".{stem_of(rank_file)}.{os.getpid()}.whole")
    try:
        source = location if location.startswith("file:") else f"{Path(location).as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(source, uri=True)) as old,
            closing(sqlite3.connect(copy)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def fetched_folder(place: Location) -> Path:
    """Make the folder into which the run at `place` is fetched.

    Raises:
        OSError: It cannot be made.
    """
    return _make("fetched", place)


def _make(purpose: str, place: Location) -> Path:
    for _ in range(_ATTEMPTS):
        try:
            folder = own_folder() / purpose / _name_for(place)
            (folder / "ranks").mkdir(parents=True, exist_ok=True)
            return folder
        except FileNotFoundError:
            continue  # another run of this user has just removed what it found empty
    raise FileNotFoundError(f"{own_folder()}: somebody removes it again and again")


def clear_spool(folder: Path, rank_file: Path) -> None:
    """Remove a rank's file that has been sent; the last rank of the machine removes the folder.

    Raises:
        OSError: The file cannot be removed.
    """
    for path in (rank_file, *(Path(f"{rank_file}{end}") for end in ("-wal", "-shm"))):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # another rank is still at work
        (folder / "ranks").rmdir()
        (folder / "manifest.json").unlink(missing_ok=True)
        remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove one run's folder and those that hold it, as far as nothing else is in them.

    Raises:
        OSError: Something is.
    """
    for empty in (folder, folder.parent, folder.parent.parent):
        empty.rmdir()


def _name_for(place: Location) -> str:
    """Give a name that all ranks of this machine find and no other run has."""
    text = place.text if place.local is None else str(place.local)  # a path has two spellings
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{place.name}-{digest}"
