"""Who this process is in its job: rank, node and world size, from whatever launched it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from traintrace.runs.launchers import (
    Place,
    impossible_ranks,
    integer,
    is_ray_worker,
    lightning_place,
    mpi_place,
    slurm_place,
    torch_place,
)

RUN_VARIABLE: Final = "TRAINTRACE_RUN"


@dataclass(frozen=True, slots=True)
class Identity:
    """Place of this process in its job.

    Attributes:
        attempt: 0 for the first start of the job, counted up by torchrun's restarts and by Slurm's requeues.
        shared_run: Folder (or URL) of a run to join, handed down by a launcher; None if there is none.
        launcher: What started the ranks: "torchrun", "accelerate", "ray", "lightning", "mpi", "slurm";
            "none" where nothing did or nobody knows.
        job: Text that all ranks of the job share without asking anybody, and no other job has, e.g.
            "slurm-123.0"; None if there is no such text.
        doubts: Sentences on variables that contradict each other, for the user.
    """

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    node: int = 0
    nodes: int = 1
    attempt: int = 0
    shared_run: str | None = None
    launcher: str = "none"
    job: str | None = None
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Identity":
        """Read the identity that a launcher put into the environment; alone without one.

        Launchers start each other: torchrun runs under srun, mpirun inside a Slurm job. The nearest to the
        process counts: RANK and WORLD_SIZE, then MPI's variables, then Slurm's. Where RANK and WORLD_SIZE
        were set by nobody that is known, so perhaps by hand, they must fit what is around them.
        """
        place, doubts = _find_place(environment)
        alone = cls(
            attempt=_attempt(environment),
            shared_run=environment.get(RUN_VARIABLE) or None,
            launcher="ray" if is_ray_worker(environment) else "none",
            doubts=doubts,
        )
        if place is None:
            return alone
        return replace(
            alone,
            rank=place.rank,
            local_rank=place.local_rank,
            world_size=place.size,
            node=place.node,
            nodes=place.nodes,
            launcher=place.launcher,
            job=place.job,
        )


def _attempt(environment: Mapping[str, str]) -> int:
    """Number the starts: torchrun counts its own from 0 again when Slurm has started the job once more."""
    restarts = integer(environment, "TORCHELASTIC_RESTART_COUNT") or 0
    most = integer(environment, "TORCHELASTIC_MAX_RESTARTS") or 0
    requeued = integer(environment, "SLURM_RESTART_COUNT") or 0
    return requeued * (max(most, restarts) + 1) + restarts


def _find_place(environment: Mapping[str, str]) -> tuple[Place | None, tuple[str, ...]]:
    """Give the nearest launcher's word, and what speaks against it."""
    slurm, mpi = slurm_place(environment), mpi_place(environment)
    if mpi is not None and slurm is not None and _say_the_same(mpi, slurm):
        mpi = None  # srun speaks PMI too; its own variables say more
    outer = mpi or slurm
    nearest = torch_place(environment) or lightning_place(environment)
    impossible = impossible_ranks(environment)
    doubts = () if impossible is None else (impossible,)
    if nearest is None:
        return outer, doubts
    if outer is None or nearest.launcher != "none" or outer.size == 1:
        return nearest, doubts
    if _say_the_same(nearest, outer):
        # RANK=$SLURM_PROCID, as scripts do: the launcher knows the rest.
        return replace(outer, names=nearest.names), doubts
    if _is_inside(nearest, outer):
        return nearest, doubts
    return nearest, (
        *doubts,
        f"{nearest} and {outer} contradict each other; traintrace takes "
        f"{' and '.join(nearest.names)}, which are nearest to this process",
    )


def _say_the_same(one: Place, other: Place) -> bool:
    return (one.rank, one.size) == (other.rank, other.size)


def _is_inside(inner: Place, outer: Place) -> bool:
    """Say whether each task of `outer` has started equally many processes of `inner`."""
    each, rest = divmod(inner.size, outer.size)
    return each > 1 and rest == 0 and inner.rank // each == outer.rank
