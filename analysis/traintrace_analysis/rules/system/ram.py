"""Nodes whose RAM is nearly full, whoever uses it."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import by_node, column, largest, quotients, unread
from traintrace_analysis.rules.memory.peaks import node_memories
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, size

_KIND: Final = "HIGH_RAM"
_CONFIDENCE: Final = 0.95


def high_ram(context: Context) -> list[Finding]:
    """Find the node whose RAM is fullest, and say how much of it is this run's."""
    worst: tuple[float, float, float, int, tuple[int, ...]] | None = None
    for node, members in by_node(recorded(context)).items():
        system = [reading for rank in members for reading in rank.system]
        share = largest(
            quotients(column(system, "ram_used_bytes"), column(system, "ram_total_bytes"))
        )
        if share is not None and (worst is None or share > worst[0]):
            used, total = (
                largest(column(system, "ram_used_bytes")),
                largest(column(system, "ram_total_bytes")),
            )
            worst = (share, used or 0.0, total or 0.0, node, tuple(rank.rank for rank in members))
    if worst is None or worst[0] < limit("ram_share_warning"):
        return []
    share, used, total, node, ranks = worst
    own = next(
        (one.trees_bytes for one in node_memories(recorded(context)) if one.node == node), None
    )
    whose = (
        "how much of it is this run's is not known"
        if own is None
        else f"{size(own)} of it at most is this run's"
    )
    return [
        observed(
            _KIND,
            "system",
            "critical" if share >= limit("ram_share_critical") else "warning",
            _CONFIDENCE,
            ranks,
            {
                "ram_share": share,
                "ram_used_bytes": used,
                "ram_total_bytes": total,
                "own_bytes": own,
                "worst_node": node,
            },
            f"The RAM of node {node} is {percent(share)} full.",
            f"{size(used)} of {size(total)} (RAM, or the limit of the container) were in use at most; {whose}.",
            "End what else runs on the node, or lower what this run holds (workers, prefetching, cached data).",
        )
    ]


def _missing(context: Context) -> str:
    why = unread(recorded(context), "system", "ram_used_bytes", "ram_total_bytes")
    return f"memory of the node ({why})" if why else ""


RULE: Final = Rule(
    topic="RAM of the nodes",
    kinds=(
        Kind(
            name=_KIND,
            means="The RAM of a node, or what the container may use, is nearly full, whoever uses it.",
            fires="Nine tenths are in use at some moment; critical from 97 % on.",
            never="That this run is the one to blame: MEMORY_PRESSURE says that.",
            action="End what else runs on the node, or hold less in memory.",
            limits=("ram_share_warning", "ram_share_critical"),
        ),
    ),
    examine=high_ram,
    missing=_missing,
    needs_steps=False,
)
