"""Readings of the machine; the only module that asks psutil."""

import os
from typing import Final

import psutil

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class ResidentMemory:
    """Reads the resident memory of this process, cheaply enough for the training thread.

    On Linux one kept-open `/proc/self/statm` is re-read (about 2 us); elsewhere psutil is asked.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            self._process = psutil.Process()

    def read_bytes(self) -> int | None:
        """Give resident bytes now; None if the reading fails."""
        try:
            if self._file is not None:
                return int(os.pread(self._file, 64, 0).split(b" ", 2)[1]) * _PAGE_BYTES
            return int(self._process.memory_info().rss)
        except (OSError, IndexError, ValueError, psutil.Error):
            return None

    def close(self) -> None:
        """Close the file that is kept open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def cpu_count() -> int | None:
    """Give the number of CPUs this process may use; None if unknown."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return psutil.cpu_count()
