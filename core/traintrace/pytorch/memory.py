"""Step memory on an accelerator: the caching allocator's peaks, reset at each step."""

import torch

from traintrace.recording.steps import StepCapture


class AllocatorMemory:
    """Peaks of the CUDA caching allocator on one device.

    Attributes:
        lifetime_peak_bytes: Largest allocated peak so far; the reset makes torch forget it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.lifetime_peak_bytes = 0

    def open_step(self) -> None:
        """Reset the allocator's peaks."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def read(self, capture: StepCapture) -> None:
        """Read the allocator's peaks."""
        stats = torch.cuda.memory_stats_as_nested_dict(self._device)
        peak = int(stats["allocated_bytes"]["all"]["peak"])
        capture.peak_allocated_bytes = peak
        capture.peak_reserved_bytes = int(stats["reserved_bytes"]["all"]["peak"])
        self.lifetime_peak_bytes = max(self.lifetime_peak_bytes, peak)


def memory_reader() -> AllocatorMemory | None:
    """Give the reader for this process's device, None without one; CUDA is never initialised for it."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch
        return AllocatorMemory(torch.device("cuda", torch.cuda.current_device()))
    return None
