"""Faults of memory: too full, uneven, growing, or kept without use."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft, Happening
from benchmarks.corpus.faults.recipes import clearly
from traintrace_analysis.step_window import Floats

_GIB: Final = 2**30
# What a finding of each kind needs at least; a fault has clearly more.
_FULL: Final = 0.95  # of the device, reserved
_HOST_FULL: Final = 0.90  # of the node's memory, held by its ranks
_UNEVEN: Final = 0.10  # above the median of the other ranks, on the device
_UNEVEN_RSS: Final = 0.20
_GROWN: Final = 0.02  # of the level, from the first to the last steady step
_FRAGMENTED: Final = 1.30  # reserved over allocated
_OVERHANG: Final = 0.25  # of the device, reserved and not allocated
_RETRIES: Final = 0.01  # in a step


def memory_pressure(chance: np.random.Generator) -> Draft:
    """Fill the device, or the node's memory, nearly to the end."""
    if chance.random() < 0.35:
        draft = _draft(chance, ("host",), wall_s=30.0)
        share = chance.uniform(_HOST_FULL + 0.015, 0.99)
        per_node = draft.nodes.count(draft.nodes[0])
        _set_host(draft, share / per_node)
        draft.machine.ram_share = (share, min(0.995, share + 0.005))
        # The same memory is the node's and the processes', and grows to where it is.
        draft.unclear = frozenset(("HIGH_RAM", "HIGH_RSS"))
        return draft
    draft = _draft(chance, ("device", "blind"), wall_s=12.0)
    reserved = chance.uniform(_FULL + 0.01, 0.99)
    _set_device(draft, reserved / chance.uniform(1.02, 1.1), reserved)
    return draft


def memory_imbalance(chance: np.random.Generator) -> Draft:
    """Let one rank need more memory than the others, on its device or of its host."""
    draft = _draft(chance, ("host", "device"), ranks=(2, 3, 4, 8, 8, 16))
    culprit = int(chance.integers(draft.ranks))
    draft.culprits = (culprit,)
    if draft.on_device:
        more = clearly(chance, _UNEVEN, most=6.0, cap=0.6)
        low = chance.uniform(0.2, 0.5)
        _set_device(draft, low, low * 1.08)
        for column in ("peak_allocated_bytes", "peak_reserved_bytes"):
            draft.memory[column][culprit] *= 1.0 + more
        used = draft.machine.device_memory_share
        used[culprit] = (used[culprit][0], used[culprit][1] * (1.0 + more))
        return draft
    more = clearly(chance, _UNEVEN_RSS, most=5.0, cap=1.0)
    _set_host(draft, chance.uniform(0.02, 0.05))
    draft.memory["rss_bytes"][culprit] *= 1.0 + more
    draft.machine.rss_share = None
    draft.machine.cpu_cores = None
    return draft


def memory_creep(chance: np.random.Generator) -> Draft:
    """Leak: a little with every step, to the end; smoothly, in lumps, or under a saw tooth."""
    draft = _draft(chance, ("host", "device"), steps=80)
    grown = clearly(chance, 1.5 * _GROWN, most=12.0, cap=0.5)
    place = np.arange(draft.steps) / draft.steps
    shape = str(chance.choice(["smooth", "lumps", "saw"]))
    if shape == "lumps":
        lump = int(chance.choice([2, 5, 10]))
        place = np.floor(place * draft.steps / lump) * lump / draft.steps
    saw = np.zeros(draft.steps)
    if shape == "saw":
        saw = 0.2 * grown * ((np.arange(draft.steps) % 7) / 7.0)
    ripple = chance.uniform(0.0002, 0.1 * grown) * chance.standard_normal(draft.shape)
    growth: Floats = 1.0 + grown * place + saw + ripple
    if draft.on_device:
        level = chance.uniform(0.2, 0.55)
        _set_device(draft, level, level * 1.05)
        allocated = level * draft.machine.device_memory_bytes * growth
        draft.memory["peak_allocated_bytes"] = allocated
        draft.memory["peak_reserved_bytes"] = np.maximum.accumulate(allocated, axis=1) * 1.05
        return draft
    draft.memory["rss_bytes"] = chance.uniform(1.5, 4.0) * _GIB * growth
    draft.machine.cpu_cores = None
    return draft


def fragmentation(chance: np.random.Generator) -> Draft:
    """Keep memory in pieces that nothing fits in, on a device that is short of room."""
    draft = _draft(chance, ("device", "blind"), wall_s=12.0)
    ratio = chance.uniform(_FRAGMENTED * 1.04, 1.9)
    if chance.random() < 0.5:
        reserved = chance.uniform(0.91, 0.93)
    else:
        reserved = chance.uniform(0.80, 0.93)
        _retry(draft, int(chance.integers(1, 4)))
        draft.unclear = frozenset(("ALLOCATOR_RETRIES",))
    _set_device(draft, reserved / ratio, reserved)
    return draft


def reserved_overhang(chance: np.random.Generator) -> Draft:
    """Keep a large part of the device without using it, while there is room."""
    draft = _draft(chance, ("device", "blind"), wall_s=12.0)
    overhang = chance.uniform(_OVERHANG * 1.3, 0.55)
    allocated = chance.uniform(0.08, min(0.85 - overhang, overhang / 0.65))
    _set_device(draft, allocated, allocated + overhang)
    return draft


def allocator_retries(chance: np.random.Generator) -> Draft:
    """Let the allocator free its cache and try again every now and then."""
    draft = _draft(chance, ("device", "blind"), steps=80, wall_s=12.0)
    reserved = chance.uniform(0.88, 0.93)
    _set_device(draft, reserved / chance.uniform(1.03, 1.15), reserved)
    steady = draft.steps - draft.warmup_steps
    _retry(draft, max(4, round(clearly(chance, _RETRIES, most=20.0, cap=0.4) * steady)))
    return draft


def _draft(
    chance: np.random.Generator,
    clocks: tuple[str, ...],
    *,
    ranks: tuple[int, ...] = (1, 1, 2, 4, 8),
    steps: int = 60,
    wall_s: float = 0.0,
) -> Draft:
    return draft_clean(
        chance,
        Wanted(
            clock=str(chance.choice(clocks)), ranks=ranks, steps=steps, step_ms=(20.0, 500.0),
            wall_s=wall_s,
        ),
    )  # fmt: skip


def _set_device(draft: Draft, allocated: float, reserved: float) -> None:
    """Let every rank reach a share of its device, soon after the start, with a little ripple."""
    total, chance = draft.machine.device_memory_bytes, draft.chance
    filling = np.minimum(1.0, 0.9 + 0.1 * (np.arange(draft.steps) + 1) / max(1, draft.steps // 20))
    ripple = 1.0 - 0.01 * chance.random(draft.shape)
    draft.memory["peak_allocated_bytes"] = total * allocated * filling * ripple
    draft.memory["peak_reserved_bytes"] = total * reserved * np.tile(filling, (draft.ranks, 1))
    draft.process_peak_bytes = int(total * allocated)
    machine = draft.machine
    machine.interval_s = min(machine.interval_s, 1.0)
    machine.utilisation = machine.utilisation or (0.9, 0.9)
    machine.device_memory_share = {
        rank: (reserved + 0.004, reserved + 0.006) for rank in range(draft.ranks)
    }


def _set_host(draft: Draft, share: float) -> None:
    """Let every rank's process, with its workers, hold a share of the node's memory."""
    machine = draft.machine
    machine.interval_s, machine.noise = 1.0, 0.002
    machine.cpu_cores = machine.cpu_cores or (1.0, 1.0)
    machine.node_cpu_share = machine.node_cpu_share or (0.3, 0.3)
    machine.ram_share = machine.ram_share or (0.5, 0.5)
    machine.rss_share = (share, share)
    ripple = 1.0 - 0.005 * draft.chance.random(draft.shape)
    draft.memory["rss_bytes"] = 0.8 * share * machine.ram_bytes * ripple


def _retry(draft: Draft, times: int) -> None:
    """Note retries of the allocator on every rank, at steps after the warm-up."""
    first = draft.warmup_steps + 1
    places = draft.chance.choice(np.arange(first, draft.steps), min(times, draft.steps - first))
    for rank in range(draft.ranks):
        for place in places:
            draft.happenings.append(Happening(rank, int(place) + 1, "allocator_retry", "1 more"))


FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "MEMORY_PRESSURE": memory_pressure,
    "MEMORY_IMBALANCE": memory_imbalance,
    "MEMORY_CREEP": memory_creep,
    "FRAGMENTATION": fragmentation,
    "RESERVED_OVERHANG": reserved_overhang,
    "ALLOCATOR_RETRIES": allocator_retries,
}
