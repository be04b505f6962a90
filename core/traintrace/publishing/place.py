"""What a place of published runs can do, wherever it lies."""

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

_SECRETS: Final = re.compile(r"(?<=://)[^/@]+@")


class LocationError(OSError):
    """A published run's place cannot be reached, read or written; the message names it, without passwords."""


class Location(ABC):
    """A file or folder of a published run; `place / name` is what lies in it.

    Every method may raise an OSError: `FileNotFoundError` where there is nothing, `LocationError` for what a service says.
    """

    @abstractmethod
    def __truediv__(self, name: str) -> "Location":
        """Give what is called `name` in it; `name` may hold slashes."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What `location` takes to give this place again: a URL or an absolute path."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of its path."""

    @property
    @abstractmethod
    def parent(self) -> "Location":
        """The folder that it lies in."""

    @property
    @abstractmethod
    def local(self) -> Path | None:
        """Its path, if it lies in a file system of this machine."""

    @abstractmethod
    def exists(self) -> bool:
        """Say whether a file, or a folder that is not empty, is there."""

    @abstractmethod
    def read_bytes(self) -> bytes:
        """Read the whole file."""

    @abstractmethod
    def write_bytes(self, data: bytes) -> None:
        """Write the file whole, replacing one that is there, and make the folders that it needs."""

    @abstractmethod
    def create(self, data: bytes) -> bool:
        """Write the file unless there is one, as atomically as the place can; say whether it was written."""

    @abstractmethod
    def upload(self, source: Path) -> None:
        """Write the file whole with the content of a file of this machine."""

    @abstractmethod
    def download(self, target: Path) -> None:
        """Copy the file to a file of this machine."""

    @abstractmethod
    def files(self) -> list[str]:
        """Give the paths of all files below it, relative to it and sorted; temporary ones are left out."""

    @abstractmethod
    def modified(self) -> float | None:
        """Give the Unix time of the file's last change; None where the place does not say."""

    @abstractmethod
    def remove(self) -> None:
        """Remove a file, or a folder with all in it; nothing happens if there is none."""

    def __str__(self) -> str:
        return without_secrets(self.text)


def without_secrets(url: str) -> str:
    """Give a URL without the user name and password that it may hold."""
    return _SECRETS.sub("", url)
