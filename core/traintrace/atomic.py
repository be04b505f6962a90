"""Write whole files or nothing: a reader never sees a half-written one."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step: a temporary file beside it, fsync, rename.

    Raises:
        OSError: The folder cannot be written; `path` is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
