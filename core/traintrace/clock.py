"""Clocks: how host moments read as wall time, and what a device must offer to be timed.

All durations come from the monotonic host clock or from device events; wall time is read once, to
anchor. A jump of the wall clock therefore moves no duration.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HostAnchor:
    """One pair of readings that places monotonic moments on the Unix time line.

    Attributes:
        offset_ns: Add it to a monotonic moment [ns] to get Unix time [ns].
    """

    offset_ns: int

    @classmethod
    def read(
        cls,
        monotonic: Callable[[], int] = time.perf_counter_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> "HostAnchor":
        """Read both clocks, wall between two monotonic readings so that the pair belongs together."""
        before = monotonic()
        unix = wall()
        after = monotonic()
        return cls(unix - (before + after) // 2)


class DeviceClock(Protocol):
    """Timing events of one device. No method may wait for the device.

    Any method may raise; the step concerned then has no device times, and no other step is touched.
    """

    name: str

    def take(self) -> object | None:
        """Take a recorded-now event from the pool; None if the pool is empty or capture is on."""

    def give_back(self, event: object) -> None:
        """Return an event to the pool; only events that have resolved or failed are returned."""

    def is_ready(self, event: object) -> bool:
        """Say whether the device has reached `event`. Never waits."""

    def elapsed_ns(self, start: object, end: object) -> int:
        """Give the device time between two ready events [ns]."""
