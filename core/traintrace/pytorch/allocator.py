"""Troubles of the CUDA caching allocator: retries (it gave memory back to find room) and failures."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from traintrace.recording.occurrences import Occurrence

# Counters of the allocator, and the kind of event that their growth is.
_COUNTERS: Final = {"num_alloc_retries": "allocator_retry", "num_ooms": "out_of_memory"}


class AllocatorWatch:
    """Reads the allocator's counters on all devices of this process; never initialises CUDA.

    Attributes:
        unmeasured: Why the counters cannot be read; None while they can, or before CUDA is in use.
    """

    kind = "allocator_retry"

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self.unmeasured: str | None = None

    def begin(self) -> None:
        """What happened before the span does not count."""
        self._counts = self._read()

    def close(self) -> None:
        """Nothing was installed."""

    def look(self) -> Sequence[Occurrence]:
        """Give one occurrence for each counter that has grown since the last look."""
        before, self._counts = self._counts, self._read()
        moment = self._now()
        return [
            Occurrence(kind, moment, None, f"{grown} more")
            for counter, kind in _COUNTERS.items()
            if (grown := self._counts[counter] - before[counter]) > 0
        ]

    def _read(self) -> dict[str, int]:
        cuda: Any = sys.modules.get("torch.cuda")
        if self.unmeasured is not None or cuda is None:
            return self._counts
        try:
            if not cuda.is_initialized():
                return self._counts
            devices = [cuda.memory_stats(device) for device in range(cuda.device_count())]
            return {name: sum(int(one.get(name, 0)) for one in devices) for name in _COUNTERS}
        except Exception as error:  # noqa: BLE001 - an allocator that keeps no counters
            self.unmeasured = f"the allocator does not tell ({type(error).__name__})"
            return self._counts
