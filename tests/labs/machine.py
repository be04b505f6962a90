"""Readings of the machine made by hand: one each 50 ms of a run that `tests.labs.runs` makes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.labs.runs import START_NS
from traintrace.readings import DeviceReading, ProcessReading, SystemReading

EVERY_NS = 50_000_000
GB = 1_000_000_000
MB = 1_000_000

BUSY_TRAINING = ProcessReading(
    at_ns=0, interval_ns=EVERY_NS, cpu_cores=1.9, workers_cpu_cores=0.0, workers=0, allowed_cores=4.0,
    threads=5, rss_bytes=2 * GB, workers_rss_bytes=0, run_queue_ns=200_000, on_cpu_ns=49_000_000,
    involuntary_switches=1, voluntary_switches=3, throttled_ns=0,
)  # fmt: skip
CALM_NODE = SystemReading(
    at_ns=0, interval_ns=EVERY_NS, cpu_cores=2.0, cpu_count=4, load_1min=2.0, ram_used_bytes=8 * GB,
    ram_total_bytes=32 * GB, disk_read_bytes=5 * MB, disk_write_bytes=0, network_received_bytes=1_000,
    network_sent_bytes=2_000,
)  # fmt: skip
BUSY_GPU = DeviceReading(
    at_ns=0, device=0, utilisation=0.97, memory_used_bytes=40 * GB, memory_total_bytes=80 * GB,
    power_w=500.0, power_limit_w=700.0, temperature_c=60.0, slowdown_temperature_c=90.0,
    sm_clock_mhz=1980.0, sm_clock_max_mhz=1980.0, throttle_reasons="",
)  # fmt: skip


def process_readings(count: int = 24, **changes: Any) -> list[ProcessReading]:
    """Make readings of a process with `changes`; a list gives one value a reading."""
    return [replace(BUSY_TRAINING, **_at(changes, index)) for index in range(count)]


def system_readings(count: int = 24, **changes: Any) -> list[SystemReading]:
    """Make readings of a node with `changes`; a list gives one value a reading."""
    return [replace(CALM_NODE, **_at(changes, index)) for index in range(count)]


def device_readings(count: int = 24, **changes: Any) -> list[DeviceReading]:
    """Make readings of a GPU with `changes`; a list gives one value a reading."""
    return [replace(BUSY_GPU, **_at(changes, index)) for index in range(count)]


def _at(changes: dict[str, Any], index: int) -> dict[str, Any]:
    values = {
        name: value[index] if isinstance(value, Sequence) and not isinstance(value, str) else value
        for name, value in changes.items()
    }
    return {"at_ns": START_NS + (index + 1) * EVERY_NS, **values}
