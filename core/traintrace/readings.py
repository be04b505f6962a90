"""Readings of the machine, the process and the devices; plain records, None is "not measured".

They are taken by a thread of the rank, never by the training thread, at intervals that grow with the
run (`samplers.sampler.pause_s`). Amounts "since the reading before" are None in the first reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

# No amount, rate or time of a reading is larger: an exabyte, or 30 years in ns. Moments are checked apart.
_LARGEST: Final = 1e18
_MOMENTS_AND_NAMES: Final = frozenset({"at_ns", "device"})
_WORDS: Final = frozenset({"throttle_reasons"})


@dataclass(frozen=True, slots=True)
class SystemReading:
    """The node as a whole, read by the rank with local rank 0 alone.

    Attributes:
        at_ns: Moment of the reading, on the clock of the rank's steps.
        cpu_cores: CPU cores that were busy on average since the reading before, whoever used them.
        cpu_count: Logical CPUs of the node.
        load_1min: Runnable and waiting threads, averaged over a minute (`getloadavg`).
        ram_used_bytes: Memory that cannot be had without swapping: total less available.
        ram_total_bytes: Memory of the node, or of this process's cgroup where that is less;
            `ram_used_bytes` is about the same.
        disk_read_bytes, disk_write_bytes, network_received_bytes, network_sent_bytes: Amounts since
            the reading before, of the whole node.
        interval_ns: Time since the reading before.
    """

    at_ns: int
    interval_ns: int | None = None
    cpu_cores: float | None = None
    cpu_count: int | None = None
    load_1min: float | None = None
    ram_used_bytes: int | None = None
    ram_total_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """This rank's process and its descendants, loader workers above all.

    Attributes:
        at_ns: Moment of the reading, on the clock of the rank's steps.
        interval_ns: Time since the reading before.
        cpu_cores: Cores that this process used on average since the reading before, all threads.
        workers_cpu_cores: The same of its descendants together.
        workers: Number of descendants.
        allowed_cores: Cores that this process may use: the least of its CPU affinity and the quotas of
            its cgroups. A fraction where a quota is one.
        threads: Threads of this process.
        rss_bytes: Resident memory of this process.
        workers_rss_bytes: Resident memory of the descendants together; pages that several of them
            share count once for each.
        run_queue_ns: Time since the reading before that the training thread was ready to run and had no
            CPU (`/proc/self/task/<id>/schedstat`).
        on_cpu_ns: Time since the reading before that the training thread ran on a CPU.
        involuntary_switches: Times since the reading before that the training thread lost its CPU.
        voluntary_switches: Times since the reading before that it gave its CPU up.
        throttled_ns: Time since the reading before that the cgroups were held back by their CPU quota,
            summed over CPUs; 0 where there is no quota.
    """

    at_ns: int
    interval_ns: int | None = None
    cpu_cores: float | None = None
    workers_cpu_cores: float | None = None
    workers: int | None = None
    allowed_cores: float | None = None
    threads: int | None = None
    rss_bytes: int | None = None
    workers_rss_bytes: int | None = None
    run_queue_ns: int | None = None
    on_cpu_ns: int | None = None
    involuntary_switches: int | None = None
    voluntary_switches: int | None = None
    throttled_ns: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One accelerator that this rank uses.

    Attributes:
        at_ns: Moment of the reading, on the clock of the rank's steps.
        device: Index of the device as the driver counts them.
        utilisation: Share of the last sampling period, 0 to 1, in which a kernel ran. It says nothing
            about how many of the device's units were busy.
        memory_used_bytes, memory_total_bytes: Of the device, whoever uses it.
        power_w, power_limit_w: Draw, and the limit that is enforced.
        temperature_c: Temperature of the chip. slowdown_temperature_c: where the driver slows it down.
        sm_clock_mhz, sm_clock_max_mhz: Clock of the compute units, now and at most.
        throttle_reasons: Why the clock is held back, as lower-case words joined by commas, e.g.
            "sw_power_cap,hw_thermal_slowdown"; empty if it is not; None if unknown.
    """

    at_ns: int
    device: int
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    slowdown_temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    throttle_reasons: str | None = None


Reading: TypeAlias = SystemReading | ProcessReading | DeviceReading


def checked_values(names: Sequence[str], values: Sequence[object]) -> tuple[object, ...]:
    """Check what a file holds of one reading; an amount that cannot be is not measured.

    Args:
        names: Fields of the record.
        values: As stored, in the order of `names`.

    Raises:
        ValueError: A value is not of the kind that its field holds: the file is damaged.
    """
    return tuple(map(_checked, names, values))


def _checked(name: str, value: object) -> object:
    if name in _MOMENTS_AND_NAMES:
        is_right = isinstance(value, int)
    elif name in _WORDS:
        is_right = value is None or isinstance(value, str)
    else:
        is_right = value is None or isinstance(value, int | float)
        if isinstance(value, int | float) and not 0 <= value <= _LARGEST:  # NaN is neither
            return None
    if not is_right:
        raise ValueError(f"{name} is {value!r}")
    return value
