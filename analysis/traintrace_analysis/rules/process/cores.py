"""Who uses the CPU cores of a node during the steady steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traintrace.facts import RankFacts
from traintrace.readings import ProcessReading
from traintrace_analysis.context import Context
from traintrace_analysis.reading_columns import by_node, column, largest, mean, of_steady_steps
from traintrace_analysis.rules.observed import recorded


@dataclass(frozen=True, slots=True)
class NodeCores:
    """The cores of one node, as far as its ranks could read them; means over their steady steps.

    Attributes:
        ranks: The run's ranks on the node.
        cores: Cores that these ranks may use together, at the least.
        cores_most: The same at the most: if each rank has cores of its own. Nothing says whether it has.
        cpus: Logical CPUs of the node; None if not read.
        own: Cores that the ranks and their workers used; None if no rank was read.
        workers_own: The part of `own` that workers used.
        node_used: Cores that were busy, whoever used them; None if not read.
        threads: Threads that the ranks' tensor operations use together, by their settings; None if unknown.
        workers: Descendants of all ranks, loader workers above all.
    """

    node: int
    ranks: tuple[int, ...]
    cores: float
    cores_most: float
    cpus: int | None
    own: float | None
    workers_own: float
    node_used: float | None
    threads: int | None
    workers: int

    @property
    def others(self) -> float | None:
        """Cores that processes outside this run used; None if that cannot be told."""
        if self.own is None or self.node_used is None:
            return None
        return max(0.0, self.node_used - self.own)

    @property
    def wanted(self) -> float | None:
        """Cores that the run would use if it had them: its threads and workers by their settings."""
        return None if self.threads is None else float(self.threads + self.workers)


def nodes_of(context: Context) -> list[NodeCores]:
    """Give the nodes of which it is known how many cores their ranks may use."""
    found = (_node(context, node, ranks) for node, ranks in by_node(recorded(context)).items())
    return [one for one in found if one is not None]


def steady_process(context: Context, rank: RankFacts) -> Sequence[ProcessReading]:
    """Give the readings of a rank's process during its steady steps."""
    return of_steady_steps(context.window, rank, rank.process)


def _node(context: Context, node: int, ranks: list[RankFacts]) -> NodeCores | None:
    allowed, own, workers_own, workers, threads = [], [], [], 0, []
    node_used = cpus = None
    for rank in ranks:
        readings = steady_process(context, rank)
        cores = largest(column(readings, "allowed_cores"))
        if cores is None and rank.setup.cpu_count is not None:
            cores = float(rank.setup.cpu_count)
        allowed += [] if cores is None else [cores]
        used = mean(column(readings, "cpu_cores"))
        own += [] if used is None else [used]
        workers_own.append(mean(column(readings, "workers_cpu_cores")) or 0.0)
        workers += round(mean(column(readings, "workers")) or rank.setup.loader.workers or 0)
        threads += [] if rank.setup.omp_threads is None else [rank.setup.omp_threads]
        if rank.system:
            system = of_steady_steps(context.window, rank, rank.system)
            node_used = mean(column(system, "cpu_cores"))
            count = largest(column(rank.system, "cpu_count"))
            cpus = None if count is None else int(count)
    if not allowed:
        return None
    total = sum(own) + sum(workers_own) if len(own) == len(ranks) else None
    # Ranks that use more than any of them may are not on the same cores; else they are taken to share
    # them, as they do without pinning.
    most = min(sum(allowed), max(float(cpus or np.inf), max(allowed)))
    return NodeCores(
        node=node,
        ranks=tuple(rank.rank for rank in ranks),
        cores=most if total is not None and total > 1.05 * max(allowed) else max(allowed),
        cores_most=most,
        cpus=cpus,
        own=total,
        workers_own=sum(workers_own),
        node_used=node_used,
        threads=sum(threads) if len(threads) == len(ranks) else None,
        workers=workers,
    )
