"""Read the NVIDIA GPUs that this process uses, through NVML. It never initialises CUDA."""

import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

from traintrace.ports import UsedDevice
from traintrace.readings import DeviceReading
from traintrace.samplers.visible import find_handle

SIGNAL: Final = "devices"

# Bits of nvmlClocksEventReasons.
THROTTLE_REASONS: Final = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# NVML's own numbers; they never change.
_SENSOR_OF_THE_CHIP: Final = 0
_SLOWDOWN_THRESHOLD: Final = 1
_SM_CLOCK: Final = 1


class NoNvml(Exception):
    """NVML cannot be used; the message says why."""


def load_nvml() -> Any:
    """Load and start NVML.

    Raises:
        NoNvml: The package or the driver is missing, or does not work.
    """
    try:
        import pynvml  # type: ignore[import-untyped]  # ships no types
    except ImportError as error:
        raise NoNvml("nvidia-ml-py is not installed") from error
    except Exception as error:  # somebody else's code; it costs these readings only
        raise NoNvml(f"nvidia-ml-py does not load: {type(error).__name__}: {error}") from error
    try:
        pynvml.nvmlInit()
    except Exception as error:  # NVMLError, or whatever a broken package raises
        raise NoNvml(f"the driver does not tell: {error}") from error
    return pynvml


class DeviceReader:
    """Takes the readings of the GPUs of one rank, on the thread of its sampler.

    NVML is loaded when the process first uses a GPU: a run on CPUs never pays for it.
    """

    def __init__(
        self,
        used: Callable[[], Sequence[UsedDevice]],
        moment: Callable[[], int],
        unmeasured: MutableMapping[str, str],
        *,
        load: Callable[[], Any] = load_nvml,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._used = used
        self._moment = moment
        self._unmeasured = unmeasured
        self._load = load
        self._environment = environment
        self._nvml: Any = None
        self._has_failed = False
        self._handles: dict[UsedDevice, Any] = {}

    def read(self) -> list[DeviceReading]:
        """Take a reading of each device that is in use now."""
        used = [] if self._has_failed else self._used()
        if not used:
            return []
        if self._nvml is None:
            try:
                self._nvml = self._load()
            except NoNvml as error:
                self._has_failed = True
                self._unmeasured[SIGNAL] = str(error)
                return []
        readings = []
        for device in used:
            if device not in self._handles:
                handle = find_handle(device, self._ask, self._environment)
                self._handles[device] = handle
                if handle is None:
                    self._unmeasured[SIGNAL] = (
                        f"which GPU of the driver is cuda:{device.index} cannot be told"
                    )
            if self._handles[device] is not None:
                readings.append(self._read(device, self._handles[device]))
        return readings

    def close(self) -> None:
        """Let NVML go."""
        if self._nvml is not None:
            self._ask("nvmlShutdown")
            self._nvml = None

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of NVML; None if it fails or is not there."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except (self._nvml.NVMLError, OSError, ValueError, TypeError, AttributeError):
            return None

    def _read(self, device: UsedDevice, handle: Any) -> DeviceReading:
        """Read one device. A part of a GPU (MIG) has its own memory, and the rest is the whole GPU's."""
        ask, whole = self._ask, handle
        if ask("nvmlDeviceIsMigDeviceHandle", handle):
            whole = ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle
        number = ask("nvmlDeviceGetIndex", whole)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        rates = ask("nvmlDeviceGetUtilizationRates", handle)
        return DeviceReading(
            at_ns=self._moment(),
            device=device.index if number is None else int(number),
            utilisation=_between(getattr(rates, "gpu", None), 0, 100, scale=100),
            memory_used_bytes=_bytes(getattr(memory, "used", None)),
            memory_total_bytes=_bytes(getattr(memory, "total", None)),
            power_w=_watts(ask("nvmlDeviceGetPowerUsage", whole)),
            power_limit_w=_watts(ask("nvmlDeviceGetEnforcedPowerLimit", whole)),
            temperature_c=_degrees(ask("nvmlDeviceGetTemperature", whole, _SENSOR_OF_THE_CHIP)),
            slowdown_temperature_c=_degrees(
                ask("nvmlDeviceGetTemperatureThreshold", whole, _SLOWDOWN_THRESHOLD)
            ),
            sm_clock_mhz=_megahertz(ask("nvmlDeviceGetClockInfo", whole, _SM_CLOCK)),
            sm_clock_max_mhz=_megahertz(ask("nvmlDeviceGetMaxClockInfo", whole, _SM_CLOCK)),
            throttle_reasons=throttle_words(self._reasons(whole)),
        )

    def _reasons(self, handle: Any) -> Any:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # the name before driver 535
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return reasons


def throttle_words(reasons: int | None) -> str | None:
    """Give the reasons of a bit mask as words; a bit that is not known as its number."""
    if reasons is None:
        return None
    bits = [1 << place for place in range(int(reasons).bit_length()) if int(reasons) >> place & 1]
    return ",".join(THROTTLE_REASONS.get(bit, f"reason_{bit:#x}") for bit in bits)


def _between(value: Any, least: float, most: float, scale: float = 1) -> float | None:
    """Give a reading in its unit; None if it failed or is none that a GPU can have."""
    if isinstance(value, int | float) and least <= value <= most:
        return value / scale
    return None


def _watts(milliwatts: Any) -> float | None:
    return _between(milliwatts, 0, 10_000_000, scale=1_000)


def _degrees(value: Any) -> float | None:
    return _between(value, 1, 150)


def _megahertz(value: Any) -> float | None:
    return _between(value, 0, 10_000)


def _bytes(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 50 else None
