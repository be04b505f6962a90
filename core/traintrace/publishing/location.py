"""Places that hold published runs: a folder of this machine, or whatever else fsspec can write to.

    location("file:///shared/runs") / "resnet-1" / "manifest.json"

A file is replaced whole or not at all: where a single upload is not already that (object stores, memory), it is
written under a temporary name and moved. Nothing here is called on the training thread once training runs.
"""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from traintrace.publishing.place import Location
from traintrace.publishing.remote import open_remote

# A drive letter is no scheme.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::|://)")


def is_url(text: str | Path) -> bool:
    """Say whether `text` names a place by a URL (`s3://...`, `file:///...`) and not by a path."""
    return isinstance(text, str) and _SCHEME.match(text) is not None


def location(text: str | Path) -> Location:
    """Give the place that a URL or a path names; nothing is looked up yet.

    Raises:
        LocationError: The scheme is unknown, or what it needs is not installed; the message says what to install.
    """
    if not is_url(text):
        return _LocalFolder(Path(text).absolute())
    url = str(text)
    if url.lower().startswith(("file://", "local://")):
        # As people write it: of two slashes what follows is a path too.
        parts = urlsplit(url)
        host = "" if parts.netloc in ("", "localhost") else f"/{parts.netloc}"
        return _LocalFolder(Path(unquote(f"{host}{parts.path}")).absolute(), as_url=True)
    return open_remote(url)


class _LocalFolder(Location):
    """A place in a file system of this machine, a shared one too."""

    def __init__(self, path: Path, as_url: bool = False) -> None:
        self._path = path
        self._as_url = as_url

    def __truediv__(self, name: str) -> Location:
        return _LocalFolder(self._path / name, self._as_url)

    @property
    def text(self) -> str:
        return self._path.as_uri() if self._as_url else str(self._path)

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def parent(self) -> Location:
        return _LocalFolder(self._path.parent, self._as_url)

    @property
    def local(self) -> Path | None:
        return self._path

    def exists(self) -> bool:
        return self._path.exists()

    def read_bytes(self) -> bytes:
        return self._path.read_bytes()

    def write_bytes(self, data: bytes) -> None:
        with self._replacing() as temporary, open(temporary, "wb") as file:
            file.write(data)
            _to_disk(file.fileno())

    def create(self, data: bytes) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(self._path)
        try:
            temporary.write_bytes(data)
            try:
                os.link(temporary, self._path)  # fails if there is one, on network file systems too
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                try:
                    with open(self._path, "xb") as file:
                        file.write(data)
                except FileExistsError:
                    return False
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def upload(self, source: Path) -> None:
        with (
            self._replacing() as temporary,
            open(source, "rb") as data,
            open(temporary, "wb") as file,
        ):
            while part := data.read(1 << 20):
                file.write(part)
            _to_disk(file.fileno())

    def download(self, target: Path) -> None:
        with open(self._path, "rb") as data, open(target, "wb") as file:
            while part := data.read(1 << 20):
                file.write(part)

    def files(self) -> list[str]:
        found = (path for path in self._path.rglob("*") if path.is_file())
        return sorted(
            path.relative_to(self._path).as_posix() for path in found if path.suffix != ".tmp"
        )

    def modified(self) -> float | None:
        return self._path.stat().st_mtime

    def remove(self) -> None:
        if self._path.is_dir():
            for entry in self._path.iterdir():
                _LocalFolder(entry).remove()
            with suppress(FileNotFoundError):
                self._path.rmdir()
        else:
            self._path.unlink(missing_ok=True)

    def _replacing(self) -> "_Replacing":
        return _Replacing(self._path)


class _Replacing:
    """Gives a temporary path beside `path` to write to, and moves that over `path` if all went well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = _temporary(path)

    def __enter__(self) -> Path:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._temporary

    def __exit__(self, kind: object, *rest: object) -> None:
        try:
            if kind is None:
                os.replace(self._temporary, self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _to_disk(number: int) -> None:
    with suppress(OSError):  # some network file systems have no such call
        os.fsync(number)
