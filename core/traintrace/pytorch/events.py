"""The device clock of CUDA and ROCm, on torch's device-neutral events."""

from collections import deque
from typing import Final

import torch

# (phases + 1) events for each of the 64 steps that the host may run ahead of the device.
POOL_EVENTS: Final = 6 * 64
# Backends whose events are known to time correctly without waiting. On XPU timing serialises streams
# (intel/torch-xpu-ops#4951); on MPS elapsed_time could hang (pytorch#162872): both stay on the host.
TRUSTED_BACKENDS: Final = ("cuda",)


class AcceleratorClock:
    """Timing events of the current accelerator, from a pool that is filled before the loop.

    Attributes:
        name: The backend, e.g. "cuda".
    """

    def __init__(self, device: torch.device, events: int = POOL_EVENTS) -> None:
        self.name = device.type
        self._is_capturing = torch.cuda.is_current_stream_capturing
        self._pool = deque(torch.Event(device, enable_timing=True) for _ in range(events))
        for event in self._pool:  # the first record creates the event in the driver
            event.record()

    def take(self) -> object | None:
        """Record a pooled event on the current stream; None if there is none or a graph is captured."""
        if not self._pool or self._is_capturing():
            return None
        event = self._pool.popleft()
        event.record()
        return event

    def give_back(self, event: object) -> None:
        """Return an event to the pool."""
        assert isinstance(event, torch.Event)
        self._pool.append(event)

    def is_ready(self, event: object) -> bool:
        """Say whether the device has reached `event`."""
        assert isinstance(event, torch.Event)
        return bool(event.query())

    def elapsed_ns(self, start: object, end: object) -> int:
        """Give the device time between two ready events [ns]."""
        assert isinstance(start, torch.Event)
        assert isinstance(end, torch.Event)
        return round(start.elapsed_time(end) * 1e6)


def device_clock() -> tuple[AcceleratorClock | None, str | None]:
    """Give the clock of the current accelerator, or None with the reason."""
    if not torch.accelerator.is_available():
        return None, "no accelerator"
    device = torch.accelerator.current_accelerator()
    if device is None or device.type not in TRUSTED_BACKENDS:
        kind = "this backend" if device is None else device.type
        return None, f"events of {kind} are not trusted to time without waiting"
    return AcceleratorClock(device), None
