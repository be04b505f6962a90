"""Memory that is nearly used up: of a device, or of a node by its ranks."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import SEVERITY_ORDER, Finding, Severity
from traintrace_analysis.reading_columns import column, largest, quotients
from traintrace_analysis.rules.memory.peaks import (
    CERTAIN,
    device_totals,
    no_device_peaks,
    no_node_memory,
    node_memories,
    window_peaks,
)
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, size

_KIND: Final = "MEMORY_PRESSURE"


def memory_pressure(context: Context) -> list[Finding]:
    """Find the device or the node whose memory is nearly used up; the worse of both, if both are."""
    found = [*_on_device(context), *_on_host(context)]
    return sorted(found, key=lambda finding: SEVERITY_ORDER[finding.severity])[:1]


def _on_device(context: Context) -> list[Finding]:
    ranks = recorded(context)
    totals = device_totals(ranks)
    reserved = window_peaks(context, "peak_reserved_bytes")
    allocated = window_peaks(context, "peak_allocated_bytes")
    used = np.asarray([largest(column(rank.devices, "memory_used_bytes")) for rank in ranks], float)
    # What the driver says holds other processes too; what the allocator says is per step.
    held = np.fmax(reserved, used)
    share = quotients(held, totals)
    if np.isnan(share).all():
        return []
    row = int(np.nanargmax(share))
    # What the allocator keeps without use it can give back when it needs room.
    cache = np.nan_to_num(np.maximum(reserved - allocated, 0.0))
    severity = _device_severity(
        float(share[row]),
        float(quotients(allocated, totals)[row]),
        float(quotients(held - cache, totals)[row]),
    )
    if severity is None:
        return []
    own = _known(reserved, row)
    # The context and the libraries of a process are outside its allocator.
    foreign = own is not None and held[row] - own > 0.1 * totals[row]
    parts = [f"{size(held[row])} of {size(totals[row])} were taken on rank {ranks[row].rank}"]
    if own is not None:
        parts.append(f"of which PyTorch's allocator reserved {size(own)}")
    if (in_use := _known(allocated, row)) is not None:
        parts.append(f"and tensors filled {size(in_use)} at most")
    why = ", ".join(parts) + "."
    if foreign:
        why += " The rest is not PyTorch's: another process, or a library with memory of its own."
    return [
        observed(
            _KIND,
            "memory",
            severity,
            CERTAIN,
            [
                rank.rank
                for rank, one in zip(ranks, share, strict=True)
                if one >= limit("device_memory_share_info")
            ],
            {
                "place": "device",
                "share": float(share[row]),
                "taken_bytes": float(held[row]),
                "reserved_bytes": own,
                "allocated_bytes": in_use,
                "total_bytes": float(totals[row]),
                "worst_rank": ranks[row].rank,
            },
            f"The device of rank {ranks[row].rank} is {percent(float(share[row]))} full.",
            why,
            "Find out which other process is on the device and end it."
            if foreign
            else "Make room before something grows: a smaller batch with more accumulation, activation "
            "checkpointing, or a lower precision. A larger batch will not fit.",
        )
    ]


def _device_severity(share: float, allocated: float, used: float) -> Severity | None:
    """Grade shares of the device: taken by anybody, filled by tensors, taken without the cache."""
    if share < limit("device_memory_share_info"):
        return None
    if allocated >= limit("device_memory_share_critical"):
        return "critical"
    if share >= limit("device_memory_share_full") and used >= limit("device_memory_share_info"):
        return "critical"
    return "warning" if share >= limit("device_memory_share_warning") else "info"


def _on_host(context: Context) -> list[Finding]:
    nodes = node_memories(recorded(context))
    if not nodes:
        return []
    worst = max(nodes, key=lambda node: node.trees_bytes / node.total_bytes)
    share = worst.trees_bytes / worst.total_bytes
    if share < limit("host_memory_share_warning"):
        return []
    who = "this run's process" if len(worst.ranks) == 1 else f"this run's {len(worst.ranks)} ranks"
    return [
        observed(
            _KIND,
            "memory",
            "critical" if share >= limit("host_memory_share_critical") else "warning",
            CERTAIN,
            worst.ranks,
            {
                "place": "host",
                "share": share,
                "taken_bytes": worst.trees_bytes,
                "used_bytes": worst.used_bytes,
                "total_bytes": worst.total_bytes,
                "worst_node": worst.node,
            },
            f"The RAM of node {worst.node} is {percent(share)} full of this run.",
            f"{size(worst.trees_bytes)} of {size(worst.total_bytes)} (RAM, or the limit of the container) "
            f"were held by {who}, loader workers included.",
            "Use fewer loader workers or a smaller prefetch_factor, keep data in arrays or memory maps "
            "instead of Python lists, or raise the memory limit; else the kernel will kill a process.",
        )
    ]


def _known(values: Floats, row: int) -> float | None:
    return float(values[row]) if np.isfinite(values[row]) else None


def _missing(context: Context) -> str:
    """Either place is enough."""
    ranks = recorded(context)
    host = no_node_memory(context)
    if not host:
        return ""
    totals = device_totals(ranks)
    if np.isnan(totals).all():
        return f"the device's size (nothing was read of a device) and {host}"
    used = any(one.memory_used_bytes is not None for rank in ranks for one in rank.devices)
    why = no_device_peaks(context)
    return "" if used or not why else f"{why} and {host}"


RULE: Final = Rule(
    topic="room in memory",
    kinds=(
        Kind(
            name=_KIND,
            means="A device, or the RAM of a node, is nearly full of this run.",
            fires=(
                "Device: nine tenths are taken, a warning from 95 % on, critical if tensors themselves "
                "fill 98 %, or if 98 % are taken and the allocator has no cache to give back. RAM, or the limit of the container: the ranks' processes and their workers hold nine "
                "tenths or more."
            ),
            never=(
                "That training is slow because of it; ALLOCATOR_RETRIES says that. Without the size of the "
                "device or node nothing is claimed."
            ),
            action="Make room before something grows: smaller batch, checkpointing, fewer workers.",
            limits=(
                "device_memory_share_info",
                "device_memory_share_warning",
                "device_memory_share_critical",
                "device_memory_share_full",
                "host_memory_share_warning",
                "host_memory_share_critical",
            ),
        ),
    ),
    examine=memory_pressure,
    missing=_missing,
    needs_steps=False,
)
