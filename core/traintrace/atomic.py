"""Write whole files or nothing: a reader never sees a half-written one, and a killed writer leaves none."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step: a temporary file beside it, fsync, rename.

    Raises:
        OSError: The folder cannot be written; `path` is then as it was, and the error names it.
    """
    write_texts({path: text})


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write several files that belong together: where one finds no room, none is changed.

    Raises:
        OSError: A file cannot be written; the error names it.
    """
    temporaries = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in texts}
    path = Path()
    try:
        for path, text in texts.items():
            _write_whole(temporaries[path], text.encode())
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    except OSError as error:
        # A full disk names no file, and the name of a temporary one tells nobody anything.
        error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        for temporary in temporaries.values():
            with contextlib.suppress(OSError):
                temporary.unlink()


def _write_whole(path: Path, content: bytes) -> None:
    if not _write_unnamed(path, content):
        with open(path, "wb") as file:
            _write(file.fileno(), content)


def _write_unnamed(path: Path, content: bytes) -> bool:
    """Write a file that gets its name when it is whole, so that nothing stays if this process is killed.

    Returns:
        False if the file system or the system cannot do that.
    """
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        number = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:
        return False
    try:
        _write(number, content)
        # A folder is given so that Python calls linkat, which alone follows this link.
        os.link(f"/proc/self/fd/{number}", path, src_dir_fd=number, follow_symlinks=True)
    except OSError:
        return False
    finally:
        os.close(number)
    return True


def _write(number: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(number, rest) :]
    os.fsync(number)
