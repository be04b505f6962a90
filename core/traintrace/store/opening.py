"""Open a rank's file for reading, whatever state its process or its disk left it in."""

import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from traintrace.errors import RunReadError

# A writer holds its file alone for milliseconds, when it closes it.
_BUSY_TIMEOUT_S: Final = 5
# SQLite's file format: a head of 100 bytes with the size of a page and the number of pages.
_HEAD_BYTES: Final = 100
_PAGE_SIZES: Final = tuple(2**power for power in range(9, 16))


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A rank's file, open for reading.

    Attributes:
        version: Its schema version; 0 if it never got one.
        copy: The temporary folder it was copied to; None if it is read where it lies.
    """

    connection: sqlite3.Connection
    version: int
    copy: "tempfile.TemporaryDirectory[str] | None" = None

    def close(self) -> None:
        """Close it, and remove the copy."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_for_reading(location: str) -> OpenedFile:
    """Open a rank's file.

    One that cannot be opened where it lies is read from a copy: SQLite wants to write beside the log
    of a process that was killed, which a read-only disk forbids; another program may hold the file; and
    SQLite reads nothing of a file that was cut, unless its end is filled up.

    Args:
        location: Its path, or a shared in-memory name.

    Raises:
        RunReadError: It is missing, or it is no database.
    """
    if location.startswith("file:"):
        return _open(location, location)
    path = Path(location).resolve()
    if not path.is_file():
        raise RunReadError(f"{location}: no such rank file")
    if not path.stat().st_size % _page_size(path):
        try:
            return _open(f"{path.as_uri()}?mode=ro", location)
        except RunReadError as error:
            if "not a database" in str(error):
                raise  # nor would its copy be one
    return _open_copy(path, location)


def _page_size(path: Path) -> int:
    """Give the bytes of a page as the file's head has them; 1 if there is no head."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    size = int.from_bytes(head[16:18], "big")
    return size if len(head) == _HEAD_BYTES and size in _PAGE_SIZES else 1


def _open(uri: str, location: str) -> OpenedFile:
    connection = None
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return OpenedFile(connection, int(version))
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise RunReadError(f"{location}: cannot be read as a rank file ({error})") from error


def _open_copy(path: Path, location: str) -> OpenedFile:
    folder = tempfile.TemporaryDirectory(prefix="traintrace-", ignore_cleanup_errors=True)
    copy = Path(folder.name, path.name)
    try:
        shutil.copyfile(path, copy)
        _fill_up(copy)
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            shutil.copyfile(log, copy.with_name(log.name))
        opened = _open(f"{copy.as_uri()}?mode=rw", location)
    except (OSError, RunReadError) as error:
        folder.cleanup()
        if isinstance(error, RunReadError):
            raise
        raise RunReadError(f"{location}: cannot be read ({error})") from error
    return OpenedFile(opened.connection, opened.version, folder)


def _fill_up(file: Path) -> None:
    """Give a file that was cut its full length back, all that is lost being zero.

    A page that was cut in its middle goes as a whole: its rows lie at its end.
    """
    page = _page_size(file)
    if page == 1:
        return
    with file.open("r+b") as opened:
        pages = int.from_bytes(opened.read(_HEAD_BYTES)[28:32], "big")
        size = opened.seek(0, 2)
        whole = size - size % page
        opened.truncate(whole)
        opened.truncate(max(whole, pages * page))
