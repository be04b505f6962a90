"""What the processes held and what the machine did, each in a line or two."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from traintrace_analysis import wording
from traintrace_reporting.format import clean, count, dig, finite, joined, number

_HELD: Final = {
    "rss_bytes": "process {}",
    "peak_allocated_bytes": "device {} allocated",
    "peak_reserved_bytes": "device {} reserved",
}


def memory(summary: Mapping[str, Any]) -> str:
    """Give the largest memory of a process and of a device, with its rank if there are several."""
    held = dig(summary, "memory")
    return joined(_most(summary, dig(held, key), where) for key, where in _HELD.items())


def _most(summary: Mapping[str, Any], reading: object, where: str) -> str:
    most = finite(dig(reading, "max"))
    if most is None:
        return ""
    return where.format(wording.size(most)) + _rank(summary, dig(reading, "max_rank"))


def _rank(summary: Mapping[str, Any], rank: object) -> str:
    """Give " (rank 3)" in a run of several ranks."""
    several = (finite(dig(summary, "run", "world_size")) or 1) > 1
    return f" (rank {clean(rank, 8)})" if several and rank is not None else ""


def machine(summary: Mapping[str, Any]) -> str:
    """Give cores and RAM of the nodes, and on a second line what their devices did."""
    nodes = [node for node in _rows(summary, "nodes") if finite(dig(node, "cpu_count"))]
    return "\n".join(line for line in (_nodes(summary, nodes), _devices(summary)) if line)


def _nodes(summary: Mapping[str, Any], nodes: Sequence[object]) -> str:
    if not nodes:
        cpus = finite(dig(summary, "setup", "cpu_count"))
        return "" if cpus is None else count(cpus, "CPU")
    first = nodes[0]
    ram, busy = finite(dig(first, "ram_total_bytes")), finite(dig(first, "cpu_cores_mean"))
    used = dig(summary, "system", "ram_used_worst_share")
    alone = len(nodes) == 1
    return joined(
        (
            ("" if alone else f"{count(len(nodes), 'node')}, the first with ")
            + count(dig(first, "cpu_count"), "CPU"),
            "" if busy is None else f"{number(busy)} busy on average",
            "" if ram is None else f"{wording.size(ram)} RAM",
            _share(summary, used, "of RAM used at most"),
        )
    )


def _devices(summary: Mapping[str, Any]) -> str:
    devices = _rows(summary, "devices")
    if not devices:
        return ""
    system = dig(summary, "system")
    hottest = finite(dig(system, "temperature_worst_c", "value"))
    several = len(devices) > 1
    return joined(
        (
            count(len(devices), "GPU"),
            _share(summary, dig(system, "utilisation_worst_share"), "busy", "at least " * several),
            _share(summary, dig(system, "memory_used_worst_share"), "of memory used"),
            "" if hottest is None else f"{hottest:.0f} degrees at most",
        )
    )


def _share(summary: Mapping[str, Any], worst: object, what: str, before: str = "") -> str:
    """Give "12 % busy", with the rank that it was read on if there are several."""
    value = finite(dig(worst, "value"))
    if value is None:
        return ""
    return f"{before}{wording.percent(value)} {what}" + _rank(summary, dig(worst, "rank"))


def _rows(summary: Mapping[str, Any], name: str) -> list[object]:
    found = dig(summary, "system", name)
    return found if isinstance(found, list) else []
