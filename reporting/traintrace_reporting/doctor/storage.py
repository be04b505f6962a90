"""Whether runs can be written where they shall lie, and on what kind of file system that is."""

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from traintrace.publishing.filesystems import network_file_system
from traintrace.publishing.location import is_url, location
from traintrace_reporting.settings import load_settings
from traintrace_reporting.settings_keys import SettingsError


def run_folder(run_dir: str | None) -> dict[str, Any]:
    """Try to write a rank file where runs shall lie; nothing is left behind.

    Args:
        run_dir: Folder or URL of the runs; None for what the settings say.
    """
    settings_error = settings_file = None
    wanted = run_dir or "runs"
    try:
        settings = load_settings()
        wanted = run_dir or settings.run_dir
        settings_file = None if settings.source is None else str(settings.source)
    except SettingsError as error:
        settings_error = str(error)
    flush_ms, reason = None, None
    remote = is_url(wanted)
    network = None if remote else network_file_system(_nearest(Path(wanted).absolute()))
    try:
        # What is published is spooled to a local file first.
        spooled = remote or network is not None
        flush_ms = _try_to_write(
            Path(tempfile.gettempdir()) if spooled else _nearest(Path(wanted).absolute())
        )
        if spooled:
            _try_to_publish(wanted)
    except (OSError, sqlite3.Error) as error:
        reason = str(error) or type(error).__name__
    return {
        "place": wanted,
        "settings_file": settings_file,
        "settings_error": settings_error,
        "url": remote,
        "network_file_system": network,
        "writable": reason is None,
        "reason": reason,
        "temporary_writable": _temporary_writable(),
        "flush_ms": flush_ms,
        "sqlite": sqlite3.sqlite_version,
    }


def _nearest(folder: Path) -> Path:
    """Give the nearest folder around `folder` that exists."""
    return next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))


def _try_to_write(place: Path) -> float:
    """Write one row as the tracer writes its rows; give the milliseconds that one flush took.

    Raises:
        OSError, sqlite3.Error: It cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix=".traintrace-doctor-", dir=place) as folder:
        connection = sqlite3.connect(Path(folder) / "rank-00000.sqlite")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY)")
            connection.commit()
            began = time.perf_counter()
            with connection:
                connection.execute("INSERT INTO steps VALUES (1)")
            return (time.perf_counter() - began) * 1e3
        finally:
            connection.close()


def _try_to_publish(wanted: str) -> None:
    """Write and remove a small file where rows are published.

    Raises:
        OSError: It cannot be written, or nothing that writes there is installed.
    """
    probe = location(wanted) / f".traintrace-doctor-{time.time_ns()}"
    probe.write_bytes(b"0")
    probe.remove()


def _temporary_writable() -> bool:
    try:
        _try_to_write(Path(tempfile.gettempdir()))
    except (OSError, sqlite3.Error):
        return False
    return True
