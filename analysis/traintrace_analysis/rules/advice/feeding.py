"""How to feed a run faster: how many workers hide the wait, or what limits that more of them do not help."""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from traintrace.facts import Setup
from traintrace_analysis.rules.advice.bursts import burst_action
from traintrace_analysis.rules.advice.supply import Supply
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, milliseconds, percent, size

Bottleneck = Literal["handover", "cores", "cpu", "storage", "unknown"]

_NOTABLE_BYTES_PER_S: Final = 1e6  # less is not reading training data
_CHEAPER: Final = (
    "make each sample cheaper, for instance by decoding, resizing or tokenising once beforehand"
)


@dataclass(frozen=True, slots=True)
class Feeding:
    """What to do about the wait.

    Attributes:
        limited_by: What keeps batches from coming faster: "handover" from worker to training,
            "cores" (all are in use), the "cpu" of each worker, "storage" (workers wait for a disk or
            a network), or "unknown".
        workers: Workers that would hide the wait if nothing else limits; None if none can.
        left_ms: How much of each step's wait stays after the advice; at most `left_at_most_ms`.
        is_upper_bound: True if following the advice may win anything down to nothing.
        why: What is known about the limit, as sentences; may be empty.
    """

    limited_by: Bottleneck
    workers: int | None
    left_ms: float
    left_at_most_ms: float
    is_upper_bound: bool
    why: str
    action: str


def workers_to_hide(supply: Supply) -> int | None:
    """Give how many loader workers would deliver a step's batches within the rest of the period.

    Making a batch takes a worker what it took so far, and what handing it over takes where the
    training loop made it itself. A tenth more than that is asked for, so that the queue fills.

    Returns:
        None if the period consists of waiting alone.
    """
    if supply.rest_ms <= 0.0:
        return None
    workers = supply.workers or 0
    make_ms = supply.make_ms + (0.0 if workers else supply.handover_ms)
    needed = limit("worker_headroom") * make_ms * supply.batches / supply.rest_ms
    return max(workers + 1, math.ceil(needed))


def advise(setup: Setup, supply: Supply, *, burst_ms: float | None = None) -> Feeding:
    """Say how to feed a run faster.

    Args:
        setup: What the run was started with.
        supply: What its loader delivered.
        burst_ms: Length of a long wait where a few steps wait for most of the time, else None.
    """
    feeding = _advise(setup, supply, burst_ms)
    if not setup.loader.reads_for_all:
        return feeding
    why = f"Rank 0 reads the batches of all ranks (accelerate's dispatch mode). {feeding.why}".rstrip()
    action = (
        f"Set dispatch_batches=False, so that each rank reads its own batches. Or: {feeding.action}"
    )
    return replace(feeding, why=why, action=action)


def _advise(setup: Setup, supply: Supply, burst_ms: float | None) -> Feeding:
    needed = workers_to_hide(supply)
    if supply.workers is None:
        action = (
            "The batches do not come from a torch DataLoader that could be read: prepare them "
            "ahead in a background thread or process, or make preparing one cheaper."
        )
        return Feeding("unknown", None, 0.0, 0.0, True, "", action)
    if burst_ms is not None:
        action = burst_action(supply, needed, burst_ms)
        return Feeding("unknown", None, 0.0, 0.0, True, "", action)
    if supply.workers and _handover_limits(supply):
        return _faster_handover(setup, supply)
    if supply.workers and _cores_are_used(supply):
        return _cheaper_samples(supply)
    if supply.cpu_share is None or supply.make_cpu_ms is None:
        return _either_way(supply, needed)
    if supply.cpu_share < limit("cpu_bound_worker"):
        return _more_reading(supply, needed)
    return _more_workers(supply, needed)


def _handover_limits(supply: Supply) -> bool:
    """Tell whether passing batches on takes the larger part of a worker's time, or of its computing."""
    part = limit("handover_share")
    if supply.handover_ms >= part * supply.make_ms:
        return True
    if (supply.bytes_per_s or 0.0) >= limit("handover_total_rate"):
        return True
    computes = (supply.cpu_share or 0.0) >= limit("cpu_bound_worker")
    return computes and supply.handover_ms >= part * (supply.make_cpu_ms or math.inf)


def _cores_are_used(supply: Supply) -> bool:
    """Tell whether workers that compute have no core left, because of this run or of others."""
    if supply.cores_in_use is None or not supply.cores:
        return False
    full = limit("cores_in_use")
    computes = (supply.cpu_share or 0.0) >= limit("cpu_bound_worker")
    crowded = (supply.node_busy or 0.0) >= full and computes
    return supply.cores_in_use >= full * supply.cores or crowded


def _faster_handover(setup: Setup, supply: Supply) -> Feeding:
    batch = ""
    if setup.batch_bytes and supply.bytes_per_s:
        batch = f" Batches of {size(setup.batch_bytes)} pass at {size(supply.bytes_per_s)}/s."
    copying, making = milliseconds(supply.handover_ms), milliseconds(supply.make_ms)
    needed = f"{count(supply.workers or 0, 'worker')} needed {making} for one, making it included"
    if supply.make_cpu_ms is not None and supply.handover_ms < 0.5 * supply.make_ms:
        computing = milliseconds(supply.make_cpu_ms)
        needed = f"a worker computes {computing} for one, making it included, and waits for a core"
    why = (
        "Handing batches over limits, not the dataset: passing one on from a worker's process takes "
        f"about {copying}; {needed}.{batch}"
    )
    action = (
        "Hand over less: leave images as uint8 or bfloat16 and convert after the transfer, or crop and "
        "pad before batching. If the data is in memory already, num_workers=0 copies nothing between "
        "processes."
    )
    if setup.device_kind not in (None, "cpu") and setup.loader.pin_memory is False:
        action += " pin_memory=True lets a thread take batches over ahead of time."
    return Feeding("handover", None, 0.0, 0.0, True, why, action)


def _cheaper_samples(supply: Supply) -> Feeding:
    used, cores = supply.cores_in_use or 0.0, supply.cores or 0.0
    others = "" if used >= limit("cores_in_use") * cores else "; other processes use the rest"
    why = (
        f"All cores are busy: training and {count(supply.workers or 0, 'worker')} keep {used:.1f} of "
        f"{_cores(cores)} busy{others}."
    )
    action = f"More workers would only share the same cores: {_CHEAPER}, or use more cores."
    return Feeding("cores", None, 0.0, 0.0, True, why, action)


def _more_reading(supply: Supply, needed: int | None) -> Feeding:
    cpu = supply.cpu_share or 0.0
    maker = "A worker" if supply.workers else "The training loop, which makes the batches,"
    rates = [
        f"{size(rate)}/s {what}"
        for rate, what in (
            (supply.disk_bytes_per_s, "from disk"),
            (supply.network_bytes_per_s, "over the network"),
        )
        if rate is not None and rate >= _NOTABLE_BYTES_PER_S
    ]
    why = (
        f"{maker} computes for only {percent(cpu)} of the time that it needs for a batch: the rest it waits "
        "for a disk, a network or another process."
        + (f" The node reads {' and '.join(rates)}." if rates else "")
    )
    if needed is None:
        return Feeding("storage", None, 0.0, 0.0, True, why, f"Read less: {_CHEAPER}.")
    left_ms = _left_ms(supply, supply.make_cpu_ms or 0.0)
    action = _set_workers(supply, needed)
    if supply.cores is not None and needed > supply.cores:
        action += (
            f" That is more than the {_cores(supply.cores)}, which is right for workers that wait."
        )
    if rates:
        action += (
            " If the storage gives no more than that, move the data nearer or store it smaller."
        )
    return Feeding("storage", needed, left_ms, left_ms, False, why, action)


def _more_workers(supply: Supply, needed: int | None) -> Feeding:
    cpu = supply.cpu_share or 0.0
    maker = (
        "A worker computes for"
        if supply.workers
        else "The training loop makes the batches and computes for at least"
    )
    why = f"{maker} {percent(cpu)} of the time, so batches cost CPU."
    left_ms = _left_ms(supply, supply.make_cpu_ms or 0.0)
    if needed is not None and left_ms <= 0.0 and (supply.cores is None or needed <= supply.cores):
        return Feeding("cpu", needed, 0.0, 0.0, False, why, _set_workers(supply, needed))
    cores = supply.cores or 1.0
    most = max(1, math.floor(cores))
    if most <= (supply.workers or 0) or left_ms >= supply.wait_ms:
        busy = (
            " while other processes use them"
            if (supply.node_busy or 0.0) >= limit("cores_in_use")
            else ""
        )
        action = f"The {_cores(cores)} allow no more{busy}: {_CHEAPER}."
        return Feeding("cpu", None, 0.0, 0.0, True, why, action)
    chosen = min(needed or most, most)
    if left_ms > 0.0:
        action = _set_workers(supply, chosen) + (
            f" The {_cores(cores)} cannot hide it all: a step of {milliseconds(supply.period_ms)} "
            f"gets no shorter than about {milliseconds(supply.rest_ms + left_ms)}. For the rest, {_CHEAPER}."
        )
    else:
        action = _set_workers(supply, chosen) + f" If that is not enough, {_CHEAPER}."
    return Feeding("cpu", chosen, left_ms, left_ms, True, why, action)


def _either_way(supply: Supply, needed: int | None) -> Feeding:
    """Advise where nothing is known of the CPU that making batches takes: for both cases."""
    at_most_ms = _left_ms(supply, supply.make_ms)
    cores = supply.cores
    if needed is not None and (cores is None or needed <= cores):
        return Feeding("unknown", needed, 0.0, at_most_ms, False, "", _set_workers(supply, needed))
    there = f"the {_cores(cores)} cannot hide it" if cores else "workers cannot hide it"
    if supply.workers == 0:
        advice = _set_workers(supply, max(1, math.floor(cores or 4)))
    else:
        advice = f"The {count(supply.workers or 0, 'worker')} cannot keep up."
    advice += f" If samples keep a CPU busy, {there}: {_CHEAPER}."
    if needed is not None:
        advice += f" If they wait for a disk or a network, {needed} workers hide it."
    return Feeding("unknown", needed, 0.0, min(at_most_ms, supply.wait_ms), True, "", advice)


def _left_ms(supply: Supply, make_cpu_ms: float) -> float:
    """Give how much of the wait the cores cannot hide, whatever the number of workers."""
    over = supply.period_on_cores_ms(make_cpu_ms) - supply.rest_ms
    return min(supply.wait_ms, max(0.0, over))


def _cores(cores: float) -> str:
    """Write a number of cores, which is a fraction where a quota gives one."""
    return count(cores, "core") if cores == int(cores) else f"{cores:.1f} cores"


def _set_workers(supply: Supply, needed: int) -> str:
    if not supply.workers:
        return f"Set num_workers={needed} in the DataLoader (now 0: batches are made in the training loop)."
    return f"Raise num_workers from {supply.workers} to {needed}."
