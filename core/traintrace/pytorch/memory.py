"""Step memory: the allocator's peaks on an accelerator, resident memory of the process otherwise."""

import time
from typing import Final

import torch

from traintrace.samplers import ResidentMemory
from traintrace.steps import StepMemory

# Resident memory is read at most this often: steps shorter than this share a reading, and the reading
# costs the training thread about 2 us.
RESIDENT_INTERVAL_NS: Final = 5_000_000


class HostMemory:
    """Resident memory of this process."""

    def __init__(self) -> None:
        self._resident = ResidentMemory()
        self._read_at = 0

    def open_step(self) -> None:
        """Resident memory has no peak that could be reset."""

    def read(self, memory: StepMemory) -> None:
        """Read resident memory, unless that was done a moment ago."""
        moment = time.perf_counter_ns()
        if moment - self._read_at >= RESIDENT_INTERVAL_NS:
            self._read_at = moment
            memory.rss_bytes = self._resident.read_bytes()

    def close(self) -> None:
        """Release the file that is kept open."""
        self._resident.close()


class AllocatorMemory(HostMemory):
    """Peaks of the CUDA caching allocator; they are reset at each step.

    Attributes:
        lifetime_peak_bytes: Largest allocated peak so far; the reset makes torch forget it.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self.lifetime_peak_bytes = 0

    def open_step(self) -> None:
        """Reset the allocator's peaks."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def read(self, memory: StepMemory) -> None:
        """Read the allocator's peaks and resident memory."""
        super().read(memory)
        stats = torch.cuda.memory_stats_as_nested_dict(self._device)
        memory.peak_allocated_bytes = stats["allocated_bytes"]["all"]["peak"]
        memory.peak_reserved_bytes = stats["reserved_bytes"]["all"]["peak"]
        self.lifetime_peak_bytes = max(self.lifetime_peak_bytes, memory.peak_allocated_bytes or 0)


def memory_reader() -> HostMemory:
    """Give the reader for this process's device; CUDA is never initialised for it."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch
        return AllocatorMemory(torch.device("cuda", torch.cuda.current_device()))
    return HostMemory()
