"""How many CPU cores this process may use: the least of its affinity and the quotas of its cgroups."""

import math
import os

from traintrace.samplers.cgroups import Cgroups


def affinity_cores(thread: int = 0) -> int | None:
    """Give the CPUs that a thread may run on, 0 being the calling one; None where nothing tells."""
    try:
        return len(os.sched_getaffinity(thread))
    except (AttributeError, OSError):
        return None


def allowed_cores(affinity: int | None, quota: float | None) -> float | None:
    """Give the least of what is known; without affinity or quota, all CPUs there are."""
    known = [limit for limit in (affinity or os.cpu_count(), quota) if limit is not None]
    return float(min(known)) if known else None


def cpu_count(root: str = "") -> int | None:
    """Give the number of CPUs this process may use, a part of one counting as one; None if unknown."""
    cores = allowed_cores(affinity_cores(), Cgroups(root).cpu()[0])
    return None if cores is None else max(1, math.ceil(cores))
