"""How many launchers start this job together, and which of them this one is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from traintrace.launch.torchrun import node_count, node_rank, processes_per_node
from traintrace.runs.identity import Identity


@dataclass(frozen=True, slots=True)
class Launchers:
    """The launchers of one job: one on each node, or one a rank where Slurm or MPI started them.

    Attributes:
        count: How many there are.
        number: Which one this is, from 0; None if nothing says so, and they have to agree.
        ranks: Ranks of the whole job; None if nobody knows yet.
        nodes: Machines, as far as can be told.
        started_by: What started the launchers: "slurm", "mpi", ..., "none".
        job: An id that all of them know; None if there is none.
    """

    count: int
    number: int | None
    ranks: int | None
    nodes: int
    started_by: str
    job: str | None


def find_launchers(
    flags: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> Launchers:
    """Read from torchrun's flags and the environment who starts this job.

    Args:
        flags: torchrun's, as they were given.
        environment: What a launcher of launchers, e.g. `srun`, has set.
    """
    around = Identity.from_environment(environment)
    if not flags:  # this process stands for one rank of whatever started it
        return Launchers(
            around.world_size,
            around.rank,
            around.world_size,
            around.nodes,
            around.launcher,
            around.job,
        )
    nodes, each = node_count(flags, environment), processes_per_node(flags, environment)
    ranks = None if each is None else nodes * each
    number: int | None = 0
    if nodes > 1:
        number = node_rank(flags, environment) if _has_node_rank(flags, environment) else None
        if number is None and around.world_size == nodes:
            number = around.rank
    return Launchers(nodes, number, ranks, nodes, "torchrun", around.job)


def _has_node_rank(flags: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    names = (flag.partition("=")[0].lstrip("-").replace("_", "-") for flag in flags)
    return "node-rank" in names or "PET_NODE_RANK" in environment
