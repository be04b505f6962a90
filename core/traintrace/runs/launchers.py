"""Which place in a job each launcher's variables say that this process has.

| launcher                       | rank, size                                 | what tells that it is one              |
|--------------------------------|--------------------------------------------|----------------------------------------|
| torchrun, accelerate launch    | RANK, WORLD_SIZE                           | TORCHELASTIC_RUN_ID                    |
| Ray Train                      | RANK, WORLD_SIZE                           | RAY_JOB_ID, RAY_RAYLET_PID             |
| Lightning's own                | LOCAL_RANK, WORLD_SIZE, no RANK            | NODE_RANK                              |
| by hand, or any other          | RANK, WORLD_SIZE                           |                                        |
| mpirun (Open MPI, MVAPICH)     | OMPI_COMM_WORLD_*, MV2_COMM_WORLD_*        |                                        |
| mpiexec (MPICH, Intel MPI)     | PMI_RANK, PMI_SIZE                         |                                        |
| srun                           | SLURM_PROCID, SLURM_STEP_NUM_TASKS         | SLURM_STEP_ID: see `slurm_place`       |
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Variables = Mapping[str, str]

# Slurm numbers the steps that are shells and scripts, not tasks of srun, from the top of 32 bits.
_SPECIAL_STEPS_FROM: Final = 0xFFFFFF00


@dataclass(frozen=True, slots=True)
class Place:
    """What one launcher says.

    Attributes:
        job: Text that all ranks of this start of the job share and no other job has; None if unknown.
        names: The variables that rank and size were read from.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int
    node: int
    nodes: int
    job: str | None
    names: tuple[str, str]

    def __str__(self) -> str:
        rank_name, size_name = self.names
        return f"{rank_name}={self.rank} of {size_name}={self.size}"


def torch_place(variables: Variables) -> Place | None:
    """Read what torchrun and those who imitate it set."""
    names = ("RANK", "WORLD_SIZE")
    found = _rank_and_size(variables, *names)
    if found is None:
        return None
    rank, size = found
    node = integer(variables, "GROUP_RANK")
    if node is None:
        node = integer(variables, "NODE_RANK") or 0
    return Place(
        launcher=_torch_launcher(variables),
        rank=rank,
        size=size,
        local_rank=integer(variables, "LOCAL_RANK") or 0,
        node=node,
        nodes=_nodes(
            size,
            node,
            integer(variables, "GROUP_WORLD_SIZE"),
            integer(variables, "LOCAL_WORLD_SIZE"),
        ),
        job=None,  # torchrun's own store is asked
        names=names,
    )


def _torch_launcher(variables: Variables) -> str:
    if "TORCHELASTIC_RUN_ID" in variables:
        return "accelerate" if "ACCELERATE_MIXED_PRECISION" in variables else "torchrun"
    return "ray" if is_ray_worker(variables) else "none"


def is_ray_worker(variables: Variables) -> bool:
    """Say whether Ray started this process."""
    return "RAY_JOB_ID" in variables or "RAY_RAYLET_PID" in variables


def lightning_place(variables: Variables) -> Place | None:
    """Read what Lightning's launcher of scripts tells those that it starts, and itself.

    It tells no rank. On the first node that is the local one; on another only the Trainer knows it.
    """
    if "RANK" in variables or integer(variables, "NODE_RANK") != 0:
        return None
    names = ("LOCAL_RANK", "WORLD_SIZE")
    found = _rank_and_size(variables, *names)
    if found is None:
        return None
    rank, size = found
    return Place("lightning", rank, size, rank, 0, 1, None, names)


def mpi_place(variables: Variables) -> Place | None:
    """Read what the launchers of MPI set; of one machine's ranks on several, the usual order is taken."""
    for start in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD"):
        names = (f"{start}_RANK", f"{start}_SIZE")
        found = _rank_and_size(variables, *names)
        if found is not None:
            local = integer(variables, f"{start}_LOCAL_RANK")
            local_size = integer(variables, f"{start}_LOCAL_SIZE")
            return _mpi_place(names, found, local, local_size, _mpi_job(variables))
    names = ("PMI_RANK", "PMI_SIZE")
    found = _rank_and_size(variables, *names)
    if found is None:
        return None
    local = integer(variables, "MPI_LOCALRANKID")
    local_size = integer(variables, "MPI_LOCALNRANKS")
    return _mpi_place(names, found, local, local_size, _mpi_job(variables))


def _mpi_place(
    names: tuple[str, str],
    found: tuple[int, int],
    local: int | None,
    local_size: int | None,
    job: str | None,
) -> Place:
    rank, size = found
    node = (rank - local) // local_size if local is not None and local_size else 0
    nodes = _nodes(size, node, None, local_size)
    return Place("mpi", rank, size, local or 0, node, nodes, job, names)


def _mpi_job(variables: Variables) -> str | None:
    """Give the id of the job, as far as it cannot be another's too.

    Open MPI 3 and 4 number their jobs; a number comes again, and where mpirun listens tells two with one
    number apart. (Each node's own server, PMIX_SERVER_URI2, has an address of its own.) Open MPI 5 and
    Slurm name theirs, e.g. "prterun-node7-4711@1".
    """
    name, launcher = variables.get("PMIX_NAMESPACE", ""), variables.get("OMPI_MCA_orte_hnp_uri")
    if launcher:
        numbers = (
            variables.get("OMPI_MCA_ess_base_jobid")  # Open MPI 4
            or variables.get("OMPI_MCA_orte_ess_jobid")  # 3
            or name
        )
        return _digest("ompi", f"{numbers} {launcher}")
    if name:
        return None if name.isdecimal() else _digest("ompi", name)
    job = variables.get("PMI_JOBID") or variables.get("HYDRA_JOBID")
    return _digest("pmi", job) if job else None


def _digest(start: str, text: str) -> str:
    return f"{start}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def slurm_place(variables: Variables) -> Place | None:
    """Read what srun tells its tasks; None where this process is none.

    The script of `sbatch` and the shell of `salloc` know the size of the allocation, and yet a `python`
    started in them is one process. So it takes a step of srun: a plain step's number, or a rank above
    0, which no shell has. `srun -n 4 --pty bash` is such a step and still a shell; what gives it away is
    the terminal's port, in the job's first step. (A job's name says nothing: salloc calls every job
    "interactive".)
    """
    rank = integer(variables, "SLURM_PROCID")
    size_name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in variables else "SLURM_NTASKS"
    found = _rank_and_size(variables, "SLURM_PROCID", size_name)
    if rank is None or found is None:
        return None
    step = integer(variables, "SLURM_STEP_ID")
    if step is not None and step >= _SPECIAL_STEPS_FROM:
        step = None
    is_shell = step == 0 and "SLURM_PTY_PORT" in variables
    if rank == 0 and (step is None or is_shell):
        return None
    node = integer(variables, "SLURM_NODEID") or 0
    told = integer(variables, "SLURM_STEP_NUM_NODES") or integer(variables, "SLURM_NNODES")
    job = variables.get("SLURM_JOB_ID") or variables.get("SLURM_JOBID")
    return Place(
        launcher="slurm",
        rank=rank,
        size=found[1],
        local_rank=integer(variables, "SLURM_LOCALID") or 0,
        node=node,
        nodes=_nodes(found[1], node, told, None),
        job=f"slurm-{job}.{step}" if job and step is not None else None,
        names=("SLURM_PROCID", size_name),
    )


def impossible_ranks(variables: Variables) -> str | None:
    """Name RANK and WORLD_SIZE if both are numbers and yet no rank of a job; None if all is well."""
    rank, size = integer(variables, "RANK"), integer(variables, "WORLD_SIZE")
    if rank is None or size is None or rank < size:
        return None
    return f"RANK={rank} is no rank of WORLD_SIZE={size}; traintrace leaves both out of account"


def integer(variables: Variables, name: str) -> int | None:
    """Read a number that is not negative; None without one."""
    text = variables.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _rank_and_size(variables: Variables, rank_name: str, size_name: str) -> tuple[int, int] | None:
    rank, size = integer(variables, rank_name), integer(variables, size_name)
    return None if rank is None or size is None or rank >= size else (rank, size)


def _nodes(size: int, node: int, told: int | None, local_size: int | None) -> int:
    by_size = -(-size // local_size) if local_size else 1
    return max(told or by_size, node + 1)
