"""Which accelerators this process uses, asked from any thread and without initialising one."""

from collections.abc import Sequence

import torch

from traintrace.ports import UsedDevice


class UsedDevices:
    """Gives the CUDA devices on which this process holds memory.

    The current device is a matter of each thread, so the sampler's own would always be the first. An
    allocator that cannot tell (a plugged-in one) leaves the device that was current at set-up.
    """

    def __init__(self) -> None:
        self._current = torch.cuda.current_device() if _is_ready() else None
        self._known: dict[int, UsedDevice] = {}

    def __call__(self) -> Sequence[UsedDevice]:
        """Give the devices in use now; none before the process has initialised CUDA."""
        if not _is_ready():
            return ()
        try:
            numbers = [i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i)]
        except RuntimeError:
            numbers = []
        if not numbers and self._current is not None:
            numbers = [self._current]
        return [self._describe(number) for number in numbers]

    def _describe(self, number: int) -> UsedDevice:
        if number not in self._known:
            # CUDA is initialised by now: this asks for what is known already.
            uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
            self._known[number] = UsedDevice(number, None if uuid is None else str(uuid))
        return self._known[number]


def _is_ready() -> bool:
    """Say whether CUDA, and not ROCm under its name, was initialised."""
    return torch.version.cuda is not None and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch
