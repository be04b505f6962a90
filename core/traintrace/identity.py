"""Who this process is in its job: rank, node and world size, from whatever launched it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

RUN_VARIABLE = "TRAINTRACE_RUN"

# Launchers by the variables they set: (rank, local rank, world size, node).
_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK"),  # torchrun, accelerate launch, Lightning
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", ""),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Place of this process in its job.

    Attributes:
        attempt: 0 for the first start of the job, counted up by an elastic launcher.
        shared_run: Folder of a run to join, handed down by a launcher; None if there is none.
    """

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    node: int = 0
    nodes: int = 1
    attempt: int = 0
    shared_run: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Identity":
        """Read the identity that a launcher put into the environment; alone without one."""
        attempt = _integer(environment, "TORCHELASTIC_RESTART_COUNT") or 0
        shared = environment.get(RUN_VARIABLE) or None
        for rank_name, local_name, size_name, node_name in _LAUNCHERS:
            rank, size = _integer(environment, rank_name), _integer(environment, size_name)
            if rank is None or size is None or not 0 <= rank < size:
                continue
            local = _integer(environment, local_name) or 0
            local_size = _integer(environment, "LOCAL_WORLD_SIZE") or 0
            nodes = size // local_size if local_size else 1
            node = _integer(environment, node_name) or 0
            return cls(rank, local, size, node, max(nodes, node + 1), attempt, shared)
        return cls(attempt=attempt, shared_run=shared)


def _integer(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None
