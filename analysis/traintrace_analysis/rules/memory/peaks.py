"""What a rank held at most, and how much its device and its node have."""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.context import Context
from traintrace_analysis.reading_columns import by_node, column, largest, row_peaks, unread
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.step_window import Floats

# Peaks are exact readings; only the choice of a limit is debatable.
CERTAIN = 0.95


def steady_peaks(context: Context, name: str) -> Floats:
    """Give each rank's largest value of a memory column after the warm-up, NaN where it has none."""
    window = context.window
    matrix = window.memory.get(name)
    steady = None if matrix is None else matrix[:, window.warmup_steps :]
    return row_peaks(steady, len(window.ranks))


def window_peaks(context: Context, name: str) -> Floats:
    """Give each recorded rank's largest value of a memory column, warm-up included."""
    return row_peaks(context.window.memory.get(name), len(recorded(context)))


def device_totals(ranks: tuple[RankFacts, ...]) -> Floats:
    """Give the memory of each rank's device, the smallest of them where it uses several."""
    totals = np.full(len(ranks), np.nan)
    for row, rank in enumerate(ranks):
        if rank.devices:
            totals[row] = np.fmin.reduce(column(rank.devices, "memory_total_bytes"))
    return totals


def no_device_peaks(context: Context) -> str:
    """Say why the allocator's peaks are not there; "" if some rank has both."""
    window = context.window
    for name, what in (("peak_allocated_bytes", "allocated"), ("peak_reserved_bytes", "reserved")):
        if np.isnan(window_peaks(context, name)).all():
            why = next(
                (
                    r.unmeasured["peak_memory"]
                    for r in recorded(context)
                    if "peak_memory" in r.unmeasured
                ),
                "no allocator of a device was read" if window.accelerator else "no device memory",
            )
            return f"{what} memory of the device ({why})"
    return ""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """RAM of one node, with what the ranks on it hold.

    Attributes:
        trees_bytes: Resident memory of the ranks' processes and their descendants at most, never more
            than was in use on the node, since shared pages count once for each process.
        used_bytes: In use on the node at most, whoever uses it.
    """

    node: int
    ranks: tuple[int, ...]
    trees_bytes: float
    used_bytes: float | None
    total_bytes: float


def node_memories(ranks: tuple[RankFacts, ...]) -> list[NodeMemory]:
    """Give the memory of every node of which RAM and some resident memory was read."""
    found = []
    for node, members in by_node(ranks).items():
        system = [reading for rank in members for reading in rank.system]
        totals, used = column(system, "ram_total_bytes"), largest(column(system, "ram_used_bytes"))
        total = None if not len(totals) else float(np.fmin.reduce(totals))
        trees = [size for rank in members if (size := tree_peak(rank)) is not None]
        if total is None or not total > 0.0 or not trees:
            continue
        held = sum(trees) if used is None else min(sum(trees), used)
        found.append(NodeMemory(node, tuple(r.rank for r in members), held, used, total))
    return found


def tree_peak(rank: RankFacts) -> float | None:
    """Give the most that a rank's process and its descendants held at once; None if never read."""
    main = column(rank.process, "rss_bytes")
    return largest(main + np.nan_to_num(column(rank.process, "workers_rss_bytes")))


def no_node_memory(context: Context) -> str:
    """Say why the ranks' memory cannot be compared with the node's; "" if it can be somewhere."""
    ranks = recorded(context)
    if node_memories(ranks):
        return ""
    why = unread(ranks, "system", "ram_total_bytes")
    if why:
        return f"memory of the node ({why})"
    return f"resident memory of the processes ({unread(ranks, 'process', 'rss_bytes') or 'no rank of that node'})"
