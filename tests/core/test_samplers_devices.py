"""Readings of GPUs, with an NVML of the tests' own: which GPU is whose, and every call that may fail."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fake_nvml import FakeNvml
from traintrace.ports import UsedDevice
from traintrace.pytorch.useddevices import UsedDevices
from traintrace.readings import DeviceReading
from traintrace.samplers.devices import DeviceReader, NoNvml, load_nvml, throttle_words


def read(
    nvml: FakeNvml, *used: UsedDevice, unmeasured: dict[str, str] | None = None, **environment: str
) -> list[DeviceReading]:
    reasons = {} if unmeasured is None else unmeasured
    return DeviceReader(
        lambda: used, lambda: 5, reasons, load=lambda: nvml, environment=environment
    ).read()


def devices(readings: list[DeviceReading]) -> list[int]:
    return [reading.device for reading in readings]


def test_a_reading_has_the_units_that_it_says() -> None:
    assert read(FakeNvml(), UsedDevice(1)) == [
        DeviceReading(
            at_ns=5,
            device=1,
            utilisation=0.87,
            memory_used_bytes=10 << 30,
            memory_total_bytes=80 << 30,
            power_w=412.5,
            power_limit_w=700.0,
            temperature_c=71.0,
            slowdown_temperature_c=90.0,
            sm_clock_mhz=1_410.0,
            sm_clock_max_mhz=1_980.0,
            throttle_reasons="sw_power_cap,hw_thermal_slowdown",
        )
    ]


FIELDS = {
    "nvmlDeviceGetUtilizationRates": {"utilisation"},
    "nvmlDeviceGetMemoryInfo": {"memory_used_bytes", "memory_total_bytes"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetTemperatureThreshold": {"slowdown_temperature_c"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_max_mhz"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"throttle_reasons"},
}


@pytest.mark.parametrize("broken", FIELDS)
def test_a_call_that_fails_costs_its_own_value_only(broken: str) -> None:
    (reading,) = read(FakeNvml((broken,)), UsedDevice(0))
    missing = {n for n in DeviceReading.__dataclass_fields__ if getattr(reading, n) is None}
    assert missing == FIELDS[broken]


def test_a_driver_that_answers_nothing_gives_no_device_and_says_so() -> None:
    reasons: dict[str, str] = {}
    handles = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID")
    assert read(FakeNvml(handles), UsedDevice(0, "x"), unmeasured=reasons) == []
    assert "cuda:0" in reasons["devices"]


def test_values_that_no_gpu_has_are_not_reported() -> None:
    nvml = FakeNvml()
    nvml.values |= {
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=255),
        "nvmlDeviceGetTemperature": 0xFFFFFFFF,
        "nvmlDeviceGetPowerUsage": 0xFFFFFFFF,
        "nvmlDeviceGetClockInfo": 0xFFFFFFFF,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=2**64 - 1, total=80 << 30),
    }
    (reading,) = read(nvml, UsedDevice(0))
    assert reading.utilisation is reading.temperature_c is reading.power_w is None
    assert reading.sm_clock_mhz is reading.memory_used_bytes is None


def test_the_uuid_tells_whatever_the_order() -> None:
    nvml = FakeNvml(kinds=("A100", "H100", "L4"))
    assert devices(read(nvml, UsedDevice(0, "2aa-bb"), CUDA_VISIBLE_DEVICES="1")) == [2]


@pytest.mark.parametrize(
    ("visible", "index", "device"),
    [
        (None, 1, 1),
        ("2,0", 0, 2),
        ("2, 0", 1, 0),
        ("2,0", 2, None),
        ("GPU-1aa-bb", 0, 1),
        ("GPU-2", 0, 2),
        ("GPU-", 0, None),
        ("MIG-part", 0, 2),
        ("", 0, None),
        ("nonsense", 0, None),
        ("7", 0, None),
    ],
)
def test_the_environment_tells_where_the_uuid_is_unknown(
    visible: str | None, index: int, device: int | None
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    reader = DeviceReader(
        lambda: [UsedDevice(index)], lambda: 5, {}, load=FakeNvml, environment=environment
    )
    found = reader.read()
    assert devices(found) == ([] if device is None else [device])


def test_a_number_tells_nothing_among_gpus_of_several_kinds_in_an_unknown_order() -> None:
    nvml = FakeNvml(kinds=("A100", "H100", "L4"))
    assert read(nvml, UsedDevice(0)) == []
    assert devices(read(nvml, UsedDevice(0), CUDA_DEVICE_ORDER="PCI_BUS_ID")) == [0]


def test_nvml_is_loaded_at_the_first_use_of_a_gpu_and_let_go_at_the_end() -> None:
    nvml, loaded, used = FakeNvml(), list[int](), list[UsedDevice]()

    def load() -> FakeNvml:
        loaded.append(1)
        return nvml

    reader = DeviceReader(lambda: used, lambda: 5, {}, load=load, environment={})
    assert reader.read() == []
    reader.close()
    assert loaded == []
    used.append(UsedDevice(0))
    assert devices(reader.read()) == devices(reader.read()) == [0]
    assert loaded == [1]
    reader.close()
    assert not nvml.is_open


def test_without_nvml_it_is_asked_for_once_and_the_reason_is_kept() -> None:
    asked, reasons = list[int](), dict[str, str]()

    def load() -> Any:
        asked.append(1)
        raise NoNvml("nvidia-ml-py is not installed")

    reader = DeviceReader(lambda: [UsedDevice(0)], lambda: 5, reasons, load=load, environment={})
    assert reader.read() == reader.read() == []
    assert asked == [1]
    assert reasons == {"devices": "nvidia-ml-py is not installed"}
    reader.close()


def test_a_machine_without_the_package_or_the_driver_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(NoNvml, match="not installed"):
        load_nvml()
    fake = FakeNvml(("nvmlInit",))
    monkeypatch.setitem(__import__("sys").modules, "pynvml", fake)
    with pytest.raises(NoNvml, match="the driver does not tell"):
        load_nvml()


def test_a_package_that_is_broken_costs_its_readings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text("raise RuntimeError('built for another Python')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    with pytest.raises(NoNvml, match="does not load: RuntimeError: built for another Python"):
        load_nvml()

    class Hollow:
        def nvmlInit(self) -> None:
            raise OSError("libnvidia-ml.so.1: cannot open")

    monkeypatch.setitem(sys.modules, "pynvml", Hollow())
    with pytest.raises(NoNvml, match="the driver does not tell: libnvidia-ml"):
        load_nvml()


@given(st.integers(0, 2**64 - 1))
def test_reasons_are_words_and_none_is_lost(mask: int) -> None:
    words = throttle_words(mask)
    assert words is not None
    assert len([word for word in words.split(",") if word]) == mask.bit_count()
    assert throttle_words(0) == ""
    assert throttle_words(None) is None


def test_cuda_is_never_initialised_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: Any) -> Any:
        raise AssertionError("this would initialise CUDA")

    for name in (
        "current_device",
        "device_count",
        "memory_reserved",
        "get_device_properties",
        "init",
    ):
        monkeypatch.setattr(torch.cuda, name, forbidden)
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert list(UsedDevices()()) == []


def test_the_devices_in_use_are_those_that_hold_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {0: 0, 1: 5, 2: 7}
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "memory_reserved", held.__getitem__)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda i: SimpleNamespace(uuid=f"{i}aa-bb")
    )
    assert list(UsedDevices()()) == [UsedDevice(1, "1aa-bb"), UsedDevice(2, "2aa-bb")]

    def cannot_tell(number: int) -> int:
        raise RuntimeError("a plugged-in allocator has no statistics")

    used = UsedDevices()
    monkeypatch.setattr(torch.cuda, "memory_reserved", cannot_tell)
    assert list(used()) == [UsedDevice(2, "2aa-bb")]
