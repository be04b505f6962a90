"""Which of the driver's GPUs is the one that a process calls number n, without asking CUDA."""

from collections.abc import Callable, Mapping
from typing import Any

from traintrace.ports import UsedDevice

Ask = Callable[..., Any]


def find_handle(device: UsedDevice, ask: Ask, environment: Mapping[str, str]) -> Any:
    """Give NVML's handle of a device; None if it cannot be told for certain.

    Args:
        device: Number and, if known, UUID as the process sees them.
        ask: Calls a function of NVML by name and gives None if that fails.
        environment: Holds `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`, as CUDA saw them.
    """
    if device.uuid is not None:
        for prefix in ("GPU-", "MIG-"):
            handle = ask("nvmlDeviceGetHandleByUUID", prefix + device.uuid)
            if handle is not None:
                return handle
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return _by_number(device.index, ask, environment)
    names = [name.strip() for name in visible.split(",")]
    if device.index >= len(names):
        return None
    name = names[device.index]
    if name.isdecimal():
        return _by_number(int(name), ask, environment)
    if name.startswith("MIG-"):
        return ask("nvmlDeviceGetHandleByUUID", name)
    return _by_beginning_of_uuid(name, ask) if name.startswith("GPU-") else None


def _by_number(number: int, ask: Ask, environment: Mapping[str, str]) -> Any:
    """Numbers are NVML's where CUDA counts by PCI address; by default it counts the fastest first.

    Among GPUs of one kind both are the same order.
    """
    if environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        count = ask("nvmlDeviceGetCount") or 0
        handles = [ask("nvmlDeviceGetHandleByIndex", one) for one in range(count)]
        kinds = {ask("nvmlDeviceGetName", one) for one in handles if one is not None}
        if len(kinds) > 1:
            return None
    return ask("nvmlDeviceGetHandleByIndex", number)


def _by_beginning_of_uuid(name: str, ask: Ask) -> Any:
    """CUDA takes as much of a UUID as makes it the only one."""
    found = []
    for number in range(ask("nvmlDeviceGetCount") or 0):
        handle = ask("nvmlDeviceGetHandleByIndex", number)
        uuid = None if handle is None else ask("nvmlDeviceGetUUID", handle)
        if str(uuid).startswith(name):
            found.append(handle)
    return found[0] if len(found) == 1 else None
