"""Resident memory of this process, often enough to tell steps apart."""

import os
from collections import deque
from collections.abc import Callable
from typing import Final

import psutil

from traintrace.samplers.procfs import PAGE_BYTES

# An hour of readings that no step takes, e.g. during a long evaluation; older ones are forgotten.
_MAX_SAMPLES: Final = 72_000
# Steps shorter than this share a reading; the readings cost about 0.1 % of one core.
INTERVAL_S: Final = 0.05


class ResidentMemory:
    """Reads the resident memory of this process."""

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
                return int(os.pread(self._file, 64, 0).split(b" ", 2)[1]) * PAGE_BYTES
            return int(self._process.memory_info().rss)
        except (OSError, IndexError, ValueError, psutil.Error):
            return None

    def close(self) -> None:
        """Close the file that is kept open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class ResidentSamples:
    """Resident memory over time, until the steps take it."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._memory = ResidentMemory()
        self._samples: deque[tuple[int, int]] = deque(maxlen=_MAX_SAMPLES)

    def add(self) -> None:
        """Take one reading."""
        value = self._memory.read_bytes()
        if value is not None:
            self._samples.append((self._now(), value))

    def largest_until(self, moment: int) -> int | None:
        """Take all readings up to `moment` [ns, monotonic] and give the largest; None if there is none.

        Called in the order of steps, it gives each step the readings that fell into it.
        """
        largest = None
        while self._samples and self._samples[0][0] <= moment:
            largest = max(largest or 0, self._samples.popleft()[1])
        return largest

    def close(self) -> None:
        """Close the file that is kept open."""
        self._memory.close()
