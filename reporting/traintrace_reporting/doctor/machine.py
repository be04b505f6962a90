"""Processors, memory and clocks of this machine, as far as this process may use them."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

from traintrace.samplers.allowance import affinity_cores, allowed_cores
from traintrace.samplers.cgroups import Cgroups


def cpus() -> dict[str, Any]:
    """Give the CPUs of the machine and those that affinity and the cgroups' quotas leave to this process.

    `usable` are whole CPUs by affinity; `quota_cores` is null without a quota; `allowed_cores` is the
    least of both.
    """
    quota, _ = Cgroups().cpu()
    affinity = affinity_cores()
    return {
        "count": os.cpu_count(),
        "usable": affinity or os.cpu_count(),
        "quota_cores": quota,
        "allowed_cores": allowed_cores(affinity, quota),
        "omp_threads": os.environ.get("OMP_NUM_THREADS") or None,
    }


def memory() -> dict[str, int | None]:
    """Give the memory limit of the cgroups and its use [bytes]; null where there is no limit."""
    limit = Cgroups().memory()
    return {
        "limit_bytes": None if limit is None else limit[0],
        "used_bytes": None if limit is None else limit[1],
    }


def clocks() -> dict[str, Any]:
    """Give the clock that times steps, and the one that makes its moments Unix time."""
    return {
        "clock": {
            "name": "perf_counter",
            "resolution_ns": time.get_clock_info("perf_counter").resolution * 1e9,
            "smallest_difference_ns": _smallest_difference_ns(time.perf_counter_ns),
        },
        "system_clock": {
            "name": "time",
            "resolution_ns": time.get_clock_info("time").resolution * 1e9,
            "smallest_difference_ns": _smallest_difference_ns(time.time_ns),
        },
    }


def _smallest_difference_ns(read: Callable[[], int]) -> float:
    """Give the smallest step that a clock was seen to make [ns]."""
    smallest = math.inf
    last = read()
    for _ in range(2_000):
        now = read()
        if now > last:
            smallest = min(smallest, now - last)
        last = now
    return smallest if math.isfinite(smallest) else 0.0
