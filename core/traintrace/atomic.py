"""Write whole files or nothing: a reader never sees a half-written one, and a killed writer leaves none."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step: a temporary file beside it, fsync, rename.

    Raises:
        OSError: The folder cannot be written; `path` is then as it was.
    """
    content = text.encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if not _write_unnamed(temporary, content):
            with open(temporary, "wb") as file:
                _write(file.fileno(), content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
