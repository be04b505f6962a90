"""An NVML of the tests' own: three GPUs, one of which has a part (MIG)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class FakeNvml:
    """Three GPUs; `broken` names functions that fail. A handle is a GPU's number, or a part's UUID."""

    class NVMLError(Exception):
        pass

    def __init__(
        self, broken: tuple[str, ...] = (), kinds: tuple[str, ...] = ("H100",) * 3
    ) -> None:
        self.broken, self.kinds, self.is_open = broken, kinds, True
        self.values: dict[str, Any] = {
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=10 << 30, total=80 << 30),
            "nvmlDeviceGetPowerUsage": 412_500,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetTemperature": 71,
            "nvmlDeviceGetTemperatureThreshold": 90,
            "nvmlDeviceGetClockInfo": 1_410,
            "nvmlDeviceGetMaxClockInfo": 1_980,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x44,
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml") or name == "nvmlDeviceGetCurrentClocksThrottleReasons":
            raise AttributeError(name)
        if name in self.broken:
            return self._fail
        special = getattr(type(self), "_" + name, None)
        if special is not None:
            return lambda *arguments: special(self, *arguments)
        return lambda *arguments: self.values[name]

    def _fail(self, *arguments: Any) -> Any:
        raise self.NVMLError("not supported")

    def _nvmlShutdown(self) -> None:
        self.is_open = False

    def _nvmlDeviceGetCount(self) -> int:
        return len(self.kinds)

    def _nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        if number >= len(self.kinds):
            self._fail()
        return number

    def _nvmlDeviceGetName(self, handle: int) -> str:
        return self.kinds[handle]

    def _nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}aa-bb"

    def _nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        if uuid == "MIG-part":
            return uuid
        return (
            next(n for n in range(3) if uuid == f"GPU-{n}aa-bb")
            if "aa-bb" in uuid
            else self._fail()
        )

    def _nvmlDeviceIsMigDeviceHandle(self, handle: Any) -> bool:
        return isinstance(handle, str)

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> int:
        return 2

    def _nvmlDeviceGetIndex(self, handle: Any) -> int:
        assert isinstance(handle, int)
        return handle
