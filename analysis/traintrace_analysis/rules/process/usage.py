"""Processes that use nearly all of the cores or the RAM that there are."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import by_node, column, largest, unread
from traintrace_analysis.rules.memory.peaks import tree_peak
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.process.cores import nodes_of
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, number, percent, size

_CONFIDENCE: Final = 0.90


def high_rss(context: Context) -> list[Finding]:
    """Find the rank whose process and workers hold nearly all of its node's RAM."""
    found = []
    for members in by_node(recorded(context)).values():
        system = [reading for rank in members for reading in rank.system]
        total, used = (
            largest(column(system, name)) for name in ("ram_total_bytes", "ram_used_bytes")
        )
        for rank in members if total else ():
            held = tree_peak(rank)
            if held is not None and total is not None:
                # Pages that processes share count once for each; no more can be held than is in use.
                held = held if used is None else min(held, used)
                found.append((held / total, held, total, rank))
    if not found:
        return []
    share, held, total, rank = max(found, key=lambda one: one[0])
    if share < limit("rss_share_warning"):
        return []
    main = largest(column(rank.process, "rss_bytes")) or 0.0
    workers = largest(column(rank.process, "workers_rss_bytes"))
    children = round(largest(column(rank.process, "workers")) or 0)
    parts = f"The training process held {size(main)} at most"
    if workers is not None and children:
        parts += f", its {count(children, 'worker')} {size(workers)} together (pages they share count once for each)"
    elif workers is None:
        parts += "; what its workers held was not read"
    big_workers = workers is not None and workers > main
    return [
        observed(
            "HIGH_RSS",
            "process",
            "critical" if share >= limit("rss_share_critical") else "warning",
            _CONFIDENCE,
            [one.rank for part, _, _, one in found if part >= limit("rss_share_warning")],
            {
                "rss_share": share,
                "tree_rss_bytes": held,
                "main_rss_bytes": main,
                "workers_rss_bytes": workers,
                "workers_count": children,
                "ram_total_bytes": total,
                "worst_rank": rank.rank,
            },
            f"The processes of rank {rank.rank} hold {percent(share)} of the RAM.",
            f"{parts}; {size(total)} is all there is (RAM, or the limit of the container).",
            "Use fewer loader workers, a smaller prefetch_factor, and arrays or memory maps instead of Python lists in "
            "the dataset."
            if big_workers
            else "Load data in parts or through memory maps instead of keeping it in the process.",
        )
    ]


def high_cpu(context: Context) -> list[Finding]:
    """Observe nodes on which this run uses nearly all cores that it may."""
    nodes = [node for node in nodes_of(context) if node.own is not None]
    if not nodes:
        return []
    shares = np.asarray([(node.own or 0.0) / max(1e-9, node.cores_most) for node in nodes])
    worst = int(np.argmax(shares))
    node, share = nodes[worst], float(shares[worst])
    if share < limit("cpu_share_high"):
        return []
    accelerator = context.window.accelerator
    workers = f", {number(node.workers_own)} of them in workers" if node.workers_own > 0.0 else ""
    return [
        observed(
            "HIGH_CPU",
            "process",
            "warning" if accelerator else "info",
            _CONFIDENCE,
            node.ranks,
            {
                "cpu_share": share,
                "own_cores": node.own,
                "workers_cores": node.workers_own,
                "allowed_cores": node.cores_most,
                "worst_node": node.node,
            },
            f"The run uses {percent(min(1.0, share))} of the CPU cores that it may.",
            f"On node {node.node} its processes used {number(node.own or 0.0)} of {number(node.cores_most)} cores in the steady "
            f"steps{workers}. "
            + (
                "The thread that launches kernels shares them with everything else."
                if accelerator
                else "For training on CPUs that is as it should be; threads that spin read as busy as those that work."
            ),
            "Give the run more cores, or make samples cheaper to prepare."
            if accelerator
            else "Nothing, unless CPU_OVERSUBSCRIBED is found as well.",
        )
    ]


def _missing_rss(context: Context) -> str:
    ranks = recorded(context)
    why = unread(ranks, "process", "rss_bytes")
    if why:
        return f"resident memory of the process ({why})"
    why = unread(ranks, "system", "ram_total_bytes")
    return f"memory of the node ({why})" if why else ""


def _missing_cpu(context: Context) -> str:
    if any(node.own is not None for node in nodes_of(context)):
        return ""
    why = unread(recorded(context), "process", "cpu_cores", "allowed_cores")
    few = "too few readings in the steady steps"
    alone = len(recorded(context)) == 1
    return (
        f"CPU use of the process ({why or (few if alone else 'not read on every rank of a node')})"
    )


RSS: Final = Rule(
    topic="memory of the processes",
    kinds=(
        Kind(
            name="HIGH_RSS",
            means="One rank's process and its loader workers hold most of the node's RAM.",
            fires="They hold four fifths of RAM, or of the container's limit, at some moment; critical from 97 % on.",
            never="That it grows (MEMORY_CREEP), or how many pages the workers share.",
            action="Fewer workers, less prefetching, data in memory maps.",
            limits=("rss_share_warning", "rss_share_critical"),
        ),
    ),
    examine=high_rss,
    missing=_missing_rss,
    needs_steps=False,
)
CPU: Final = Rule(
    topic="use of the CPU cores",
    kinds=(
        Kind(
            name="HIGH_CPU",
            means="The run's processes use nearly all the cores that they may.",
            fires=(
                "Their mean in the steady steps is 95 % of the allowed cores or more, of all that the ranks of a node may "
                "have if each has its own; a warning on an accelerator only."
            ),
            never="That cores are short: CPU_OVERSUBSCRIBED says that. On CPUs, full cores are what one wants.",
            action="On an accelerator: more cores, or cheaper samples.",
            limits=("cpu_share_high",),
        ),
    ),
    examine=high_cpu,
    missing=_missing_cpu,
)
