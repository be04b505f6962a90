"""Memory that the allocator of a device keeps and does not use."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.memory.peaks import (
    CERTAIN,
    device_totals,
    no_device_peaks,
    steady_peaks,
)
from traintrace_analysis.rules.memory.retries import count_retries
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, number, percent, size


@dataclass(frozen=True, slots=True)
class _Reserve:
    """The rank whose allocator keeps most beyond what it uses; shares are None without a known size."""

    rank: int
    allocated: float
    reserved: float
    total: float | None
    retries: int

    @property
    def ratio(self) -> float:
        return self.reserved / self.allocated

    @property
    def overhang(self) -> float:
        return self.reserved - self.allocated

    @property
    def is_tight(self) -> bool:
        """True if the room that is kept is missed: the allocator gave some back, or the device is full."""
        full = limit("device_memory_share_info")
        return self.retries > 0 or (self.total is not None and self.reserved >= full * self.total)

    def evidence(self) -> dict[str, float | int | str | None]:
        return {
            "reserved_bytes": self.reserved,
            "allocated_bytes": self.allocated,
            "reserved_ratio": self.ratio,
            "overhang_bytes": self.overhang,
            "total_bytes": self.total,
            "retries_count": self.retries,
            "worst_rank": self.rank,
        }


def _reserves(context: Context, ratio: float) -> list[_Reserve]:
    """Give the ranks whose allocator reserves `ratio` times what it uses, the largest overhang first."""
    allocated = steady_peaks(context, "peak_allocated_bytes")
    reserved = steady_peaks(context, "peak_reserved_bytes")
    rows = np.flatnonzero((allocated > 0.0) & (reserved >= ratio * allocated))
    if not len(rows):
        return []
    ranks = recorded(context)
    totals = device_totals(ranks)
    found = [
        _Reserve(
            ranks[row].rank,
            float(allocated[row]),
            float(reserved[row]),
            float(totals[row]) if np.isfinite(totals[row]) else None,
            count_retries(context, ranks[row]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: -one.overhang)


def fragmentation(context: Context) -> list[Finding]:
    """Find memory that is reserved in pieces too small to use, while room is short."""
    found = [one for one in _reserves(context, limit("fragmentation_ratio")) if one.is_tight]
    if not found:
        return []
    worst = found[0]
    sign = (
        f"the allocator had to give memory back {count(worst.retries, 'time')}"
        if worst.retries
        else f"the device is {percent(worst.reserved / (worst.total or worst.reserved))} reserved"
    )
    return [
        observed(
            "FRAGMENTATION",
            "memory",
            "warning",
            # Retries show that free pieces were of no use; a full device may as well have kept them idle.
            CERTAIN if worst.retries else 0.75,
            [one.rank for one in found],
            worst.evidence(),
            f"{size(worst.overhang)} of device memory lie in pieces that tensors do not fit in.",
            f"On rank {worst.rank} the allocator reserved {size(worst.reserved)} while tensors filled "
            f"{size(worst.allocated)} at most ({number(worst.ratio)} times as much), and {sign}.",
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; pad or bucket inputs to few different shapes.",
        )
    ]


def reserved_overhang(context: Context) -> list[Finding]:
    """Find memory that is kept without being used, where nothing is short of it."""
    found = [
        one
        for one in _reserves(context, limit("overhang_ratio"))
        if not one.is_tight and one.overhang >= limit("overhang_floor")
    ]
    if not found:
        return []
    worst = found[0]
    share = None if worst.total is None else worst.overhang / worst.total
    of_device = "" if share is None else f", {percent(share)} of the device"
    large = share is not None and share >= limit("overhang_share_warning")
    return [
        observed(
            "RESERVED_OVERHANG",
            "memory",
            "warning" if large else "info",
            CERTAIN,
            [one.rank for one in found],
            {**worst.evidence(), "overhang_share_of_device": share},
            f"The allocator keeps {size(worst.overhang)} that no tensor uses{of_device}.",
            f"On rank {worst.rank} it reserved {size(worst.reserved)} while tensors filled {size(worst.allocated)} "
            "at most. That costs this run nothing; other processes on the device cannot have it.",
            "Nothing, if the device is yours alone: a larger batch fits. Else look for one step that needs far "
            "more than the others, and set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        )
    ]


FRAGMENTATION: Final = Rule(
    topic="fragments of device memory",
    kinds=(
        Kind(
            name="FRAGMENTATION",
            means="The allocator reserves far more than tensors fill, and is short of room all the same.",
            fires=(
                "In the steady steps 1.3 times as much is reserved as allocated, and the allocator gave memory "
                "back meanwhile or nine tenths of the device are reserved."
            ),
            never="Seconds lost: what a retry takes is in ALLOCATOR_RETRIES where it was measured.",
            action="Use expandable segments; give inputs few different shapes.",
            limits=("fragmentation_ratio", "device_memory_share_info"),
        ),
    ),
    examine=fragmentation,
    missing=no_device_peaks,
)
OVERHANG: Final = Rule(
    topic="unused reserve of device memory",
    kinds=(
        Kind(
            name="RESERVED_OVERHANG",
            means="The allocator keeps memory that no tensor used in any steady step.",
            fires=(
                "It reserves 1.5 times as much as is allocated and at least 1 GB more; a warning from a quarter "
                "of the device on, an observation below or where its size is unknown."
            ),
            never="That it slows this run: it is harmless unless somebody else needs the room.",
            action="Use the room for a larger batch, or give it back with expandable segments.",
            limits=("overhang_ratio", "overhang_floor", "overhang_share_warning"),
        ),
    ),
    examine=reserved_overhang,
    missing=no_device_peaks,
)
