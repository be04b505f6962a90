"""Places that are reached through fsspec: object stores, memory, and file systems of other machines."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from traintrace.publishing.place import Location, LocationError, without_secrets

# The package that pip installs for a scheme, where fsspec's own words do not tell.
_PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
}
# File systems proper: a reader can see a file of theirs half-written, and a move is one operation.
_MOVED: Final = frozenset({"sftp", "ssh", "smb", "hdfs", "arrow_hdfs", "webhdfs", "webHDFS"})


def open_remote(url: str) -> Location:
    """Give the place of a URL; its service is not asked yet.

    Raises:
        LocationError: The scheme is unknown, or what it needs is not installed.
    """
    scheme = url.split("://", 1)[0]
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:  # installed along with us
        raise LocationError(
            f"{without_secrets(url)}: fsspec is missing (pip install fsspec)"
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        how = f"pip install {package}" if package else str(error)
        raise LocationError(
            f"{without_secrets(url)}: {scheme}:// needs a package ({how})"
        ) from error
    except Exception as error:  # whatever a service's own library raises
        raise LocationError(f"{without_secrets(url)}: {error}") from error
    return _RemoteFolder(system, scheme, str(path), url.rstrip("/"))


class _RemoteFolder(Location):
    """A place behind an fsspec file system."""

    def __init__(self, system: Any, scheme: str, path: str, url: str) -> None:
        self._system = system
        self._scheme = scheme
        self._path = path.rstrip("/")
        self._url = url

    def __truediv__(self, name: str) -> Location:
        return _RemoteFolder(
            self._system, self._scheme, f"{self._path}/{name}", f"{self._url}/{name}"
        )

    @property
    def text(self) -> str:
        return self._url

    @property
    def name(self) -> str:
        return PurePosixPath(self._path).name

    @property
    def parent(self) -> Location:
        return _RemoteFolder(
            self._system, self._scheme, self._path.rpartition("/")[0], self._url.rpartition("/")[0]
        )

    @property
    def local(self) -> Path | None:
        return None

    def exists(self) -> bool:
        with self._talking():
            self._system.invalidate_cache()
            return bool(self._system.exists(self._path))

    def read_bytes(self) -> bytes:
        with self._talking():
            return bytes(self._system.cat_file(self._path))

    def write_bytes(self, data: bytes) -> None:
        with self._replacing() as path:
            self._system.pipe_file(path, data)

    def create(self, data: bytes) -> bool:
        with self._talking():
            self._system.invalidate_cache()
            if self._system.exists(self._path):
                return False
            self._make_parent()
            try:
                self._system.pipe_file(self._path, data, mode="create")
            except FileExistsError:
                return False
            except (TypeError, NotImplementedError):  # no such mode here
                self._system.pipe_file(self._path, data)
            return True

    def upload(self, source: Path) -> None:
        with self._replacing() as path:
            self._system.put_file(str(source), path)

    def download(self, target: Path) -> None:
        with self._talking():
            self._system.get_file(self._path, str(target))

    def files(self) -> list[str]:
        with self._talking():
            self._system.invalidate_cache()
            found = [str(path) for path in self._system.find(self._path)]
        start = f"{self._path}/"
        return sorted(
            path[len(start) :]
            for path in found
            if path.startswith(start) and not path.endswith(".tmp")
        )

    def modified(self) -> float | None:
        with self._talking():
            try:
                return float(self._system.modified(self._path).timestamp())
            except (NotImplementedError, AttributeError):
                return None

    def remove(self) -> None:
        with self._talking():
            self._system.invalidate_cache()
            if self._system.exists(self._path):
                self._system.rm(self._path, recursive=True)

    @contextmanager
    def _replacing(self) -> Iterator[str]:
        with self._talking():
            self._make_parent()
            if self._scheme not in _MOVED:
                yield self._path
                return
            folder, _, name = self._path.rpartition("/")
            temporary = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
            try:
                yield temporary
                if self._system.exists(self._path):  # theirs do not move over a file
                    self._system.rm_file(self._path)
                self._system.mv(temporary, self._path)
            except BaseException:
                with suppress(Exception):  # the first error is the one to tell of
                    self._system.rm_file(temporary)
                raise

    def _make_parent(self) -> None:
        """Make the folder that holds it; object stores have none, and what they refuse here is not needed."""
        folder = self._path.rpartition("/")[0]
        if folder and self._scheme in (*_MOVED, "memory"):
            self._system.makedirs(folder, exist_ok=True)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turn what a service's library raises into errors of files."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self}: nothing there") from error
        except Exception as error:  # told to whoever asked, as an error of files
            raise LocationError(f"{self}: {type(error).__name__}: {error}") from error
