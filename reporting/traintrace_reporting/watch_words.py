"""What the report says of a program that was watched from outside: what its processes and the machine did."""

from collections.abc import Mapping, Sequence
from typing import Any

from traintrace_analysis import wording
from traintrace_reporting.format import NOT_MEASURED, count, dig, finite, joined, number

WATCHED = "watch"


def is_watched(summary: Mapping[str, Any]) -> bool:
    """Tell whether a program was watched and not traced: it has no steps, so there is no verdict either."""
    return bool(dig(summary, "tool", "plugin") == WATCHED)


def rows(summary: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Give what was watched, by label."""
    process = dig(summary, "process", "by_rank", "0")
    nodes = dig(summary, "system", "nodes")
    node = nodes[0] if isinstance(nodes, list) and nodes else None
    readings = finite(dig(process, "readings"))
    return (
        ("Watched", f"from outside, {count(readings or 0, 'reading')}: no steps are seen"),
        ("CPU", _cpu(process)),
        ("Memory", _memory(process)),
        ("Machine", _machine(node)),
        ("Traffic", _traffic(node)),
        *(("GPU", line) for line in _devices(summary)),
    )


def _cpu(process: object) -> str:
    own, below = (
        finite(dig(process, "cpu_cores_mean")),
        finite(dig(process, "workers_cpu_cores_mean")),
    )
    allowed, most = finite(dig(process, "allowed_cores")), finite(dig(process, "workers_max"))
    if own is None:
        return NOT_MEASURED
    return joined(
        (
            f"{number(own + (below or 0.0))} cores on average",
            "" if allowed is None else f"of {number(allowed)} allowed",
            "" if not most else f"{most + 1:.0f} processes at most",
        )
    )


def _memory(process: object) -> str:
    tree, own = finite(dig(process, "tree_rss_max_bytes")), finite(dig(process, "rss_max_bytes"))
    if tree is None and own is None:
        return NOT_MEASURED
    return f"{wording.size(tree if tree is not None else own or 0)} resident at most, all processes"


def _machine(node: object) -> str:
    busy, most = finite(dig(node, "cpu_cores_mean")), finite(dig(node, "cpu_cores_max"))
    ram, total = finite(dig(node, "ram_used_max_bytes")), finite(dig(node, "ram_total_bytes"))
    cpus = finite(dig(node, "cpu_count"))
    return joined(
        (
            "" if cpus is None else count(cpus, "CPU"),
            "" if busy is None else f"{number(busy)} busy on average",
            "" if most is None else f"{number(most)} at most",
            ""
            if ram is None or total is None
            else f"{wording.size(ram)} of {wording.size(total)} RAM used at most",
        )
    )


def _traffic(node: object) -> str:
    rates = (
        (what, finite(dig(node, f"{key}_bytes_per_s")))
        for what, key in (
            ("read from disk", "disk_read"),
            ("written", "disk_write"),
            ("received", "network_received"),
            ("sent", "network_sent"),
        )
    )
    return joined(f"{wording.size(rate)}/s {what}" for what, rate in rates if rate is not None)


def _devices(summary: Mapping[str, Any]) -> Sequence[str]:
    found = dig(summary, "system", "devices")
    return [_device(one) for one in found] if isinstance(found, list) else []


def _device(device: object) -> str:
    busy, power = finite(dig(device, "utilisation_mean_share")), finite(dig(device, "power_mean_w"))
    used, total = (
        finite(dig(device, "memory_used_max_bytes")),
        finite(dig(device, "memory_total_bytes")),
    )
    hottest = finite(dig(device, "temperature_max_c"))
    return joined(
        (
            f"number {dig(device, 'device')}",
            "" if busy is None else f"{wording.percent(busy)} busy on average",
            ""
            if used is None or total is None
            else f"{wording.size(used)} of {wording.size(total)} used at most",
            "" if power is None else f"{power:.0f} W on average",
            "" if hottest is None else f"{hottest:.0f} degrees at most",
        )
    )
