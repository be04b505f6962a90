"""Names of run folders, and who may have one: a folder belongs to the run whose id lies in it.

All processes of a job that know its id come to one folder without asking each other: each prepares a
folder of its own beside the wanted place, with the id in it, and moves it there. The file system lets
one of them through; the others find their id there and join. A folder with another id, or with
anything else in it, is never joined: the next number is tried.
"""

import errno
import os
import re
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

ID_NAME: Final = ".run-id"
# File systems allow names of 255 bytes; some room stays for a number.
_NAME_BYTES: Final = 200
_MOST_NUMBERS: Final = 10_000
_PREPARED: Final = ".new-"
# Between preparing a folder and moving it lie milliseconds.
_FORGOTTEN_S: Final = 600.0
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def safe_name(name: str) -> str:
    """Give `name` without the characters that no file system likes, and no longer than they allow."""
    text = re.sub(r"[^\w.+=-]+", "-", name).strip(".-")
    return text.encode()[:_NAME_BYTES].decode(errors="ignore") or "run"


def new_run_id() -> str:
    """Give an id that no other run has."""
    return secrets.token_hex(6)


def claim_folder(root: Path, name: str, run_id: str) -> Path:
    """Give the folder of the run `run_id`: made by whoever comes first, joined by the others.

    Args:
        root: Folder that holds runs; made if missing.
        name: Wanted name; characters that no file system likes are replaced, and a name that another
            run has gets `-2`, `-3`, ...
        run_id: Id of the run; all callers with the same one get the same folder.

    Raises:
        OSError: The folder cannot be made.
    """
    safe = safe_name(name)
    root.mkdir(parents=True, exist_ok=True)
    prepared: Path | None = None
    try:
        for number in range(1, _MOST_NUMBERS):
            folder = root / (safe if number == 1 else f"{safe}-{number}")
            if not _holds_anything(folder):
                prepared = prepared or _prepare(root, run_id)
                if _move(prepared, folder):
                    prepared = None
                    return folder
            # Read only now: a folder comes to its place with the id in it, so what holds anything holds
            # its id, or is not ours.
            if id_of(folder) == run_id:
                return folder
    finally:
        if prepared is not None:
            shutil.rmtree(prepared, ignore_errors=True)
    raise FileExistsError(f"{root / safe}: this name is taken ten thousand times; clean up {root}")


def create_folder(root: Path, name: str, run_id: str | None = None) -> Path:
    """Make the folder of a new run under `root`; a taken name gets `-2`, `-3`, ...

    Raises:
        OSError: The folder cannot be made.
    """
    return claim_folder(root, name, run_id or new_run_id())


def create_emergency_folder(name: str, run_id: str | None = None) -> Path:
    """Make a run folder where temporary files go; for when the wanted place cannot be written.

    Raises:
        OSError: Not even that can be written.
    """
    return create_folder(Path(tempfile.mkdtemp(prefix="traintrace-")), name, run_id)


def id_of(folder: Path) -> str | None:
    """Give the id of the run that a folder belongs to; None if it says none."""
    try:
        return (folder / ID_NAME).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _holds_anything(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except OSError:  # a file, or not ours to look into
        return True


def _prepare(root: Path, run_id: str) -> Path:
    _clear_forgotten(root)
    prepared = root / f"{_PREPARED}{os.getpid()}-{secrets.token_hex(4)}"
    prepared.mkdir()
    (prepared / "ranks").mkdir()
    (prepared / ID_NAME).write_text(run_id + "\n", "utf-8")
    return prepared


def _clear_forgotten(root: Path) -> None:
    """Remove what processes prepared here and were killed before they could move it, with nothing in it."""
    with os.scandir(root) as entries:
        found = [Path(entry) for entry in entries if entry.name.startswith(_PREPARED)]
    for prepared in found:
        with suppress(OSError):  # another process is at it as well, or it is not ours to remove
            if time.time() - prepared.lstat().st_mtime > _FORGOTTEN_S:
                (prepared / ID_NAME).unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    (prepared / "ranks").rmdir()
                prepared.rmdir()


def _move(prepared: Path, folder: Path) -> bool:
    """Put the folder in its place, in one operation; False if the place was taken by then."""
    try:
        os.rename(prepared, folder)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True
