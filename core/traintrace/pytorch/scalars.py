"""Read logged values without making training wait for the device."""

from typing import Any

import torch


class DeferredScalar:
    """A value on its way from the device to a pinned slot on the host."""

    __slots__ = ("_event", "_slot")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._slot = torch.empty((), dtype=tensor.dtype, pin_memory=True)
        self._slot.copy_(tensor.detach().reshape(()), non_blocking=True)
        self._event = torch.Event(tensor.device)
        self._event.record()

    def ready(self) -> bool:
        """Say whether the copy has arrived."""
        return bool(self._event.query())

    def value(self) -> float:
        """Give the value."""
        return float(self._slot.item())


def read_scalar(value: Any) -> object:
    """Give a float for anything on the host, a `DeferredScalar` for a tensor on a device.

    Raises:
        ValueError, TypeError: `value` is no single number.
    """
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        if value.numel() != 1:
            raise ValueError(f"a tensor of shape {tuple(value.shape)} is no single number")
        return DeferredScalar(value)
    if isinstance(value, torch.Tensor):
        return float(value.detach().item())
    return float(value)
