"""Start real jobs under every launcher, and check what each left: one run, with all ranks and all steps."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.labs.ranks import ROOT, end_job, ranks_of, summary_of
from traintrace import facts
from traintrace.runs.manifest import Manifest

SCRIPTS: Final = Path(__file__).with_name("scripts")
PLAIN: Final = str(SCRIPTS / "plain.py")
PYTHON: Final = (sys.executable,)
TORCHRUN: Final = (*PYTHON, "-m", "torch.distributed.run")
TORCHRUN_2: Final = (*TORCHRUN, "--standalone", "--nproc-per-node", "2")
# As the installed command does; `-m` needs no PATH.
RUN: Final = (*PYTHON, "-m", "traintrace_reporting", "run")
RUN_2: Final = (*RUN, "--nproc-per-node", "2")
# A line of the printed report.
REPORT: Final = "Where the time went"
# What launchers set; none of it may come from the process that runs the tests.
_LAUNCHERS: Final = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "TRAINTRACE_", "GROUP_")
_PLACES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "ROLE_RANK")

# What a launcher tells rank n of m.
Variables = Callable[[int, int], Mapping[str, str]]
Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is over.

    Attributes:
        folder: Where it ran; its runs are in `runs`.
        code: Its exit code, negative for a signal.
    """

    folder: Path
    code: int
    output: str
    error: str

    @property
    def runs(self) -> list[Path]:
        """Give what lies where the runs go, hidden leftovers too."""
        place = self.folder / "runs"
        return sorted(place.iterdir()) if place.exists() else []

    @property
    def run(self) -> Path:
        """Give the one run that the job left, and nothing beside it."""
        assert len(self.runs) == 1, ([path.name for path in self.runs], self.error[-3_000:])
        return self.runs[0]

    @property
    def ranks(self) -> tuple[facts.RankFacts, ...]:
        return ranks_of(self.run)

    def steps(self) -> dict[tuple[int, int], int]:
        """Give the completed steps by attempt and rank."""
        return {(one.attempt, one.rank): one.totals.steps for one in self.ranks}


def environment(**extra: str) -> dict[str, str]:
    """Give the environment of a job that no launcher has touched yet, with `extra` in it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LAUNCHERS) and name not in _PLACES
    }
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "NO_COLOR": "1"} | extra


def start(
    folder: Path, command: Sequence[object], variables: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Start a command in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [*map(str, command)],
        cwd=folder,
        env=environment(**(variables or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait(folder: Path, *processes: "subprocess.Popen[str]", timeout_s: float = 300) -> list[Ended]:
    """Wait for processes that belong together; whatever happens, none of theirs is left behind."""
    try:
        with ThreadPoolExecutor(len(processes)) as pool:
            said = [*pool.map(lambda one: one.communicate(timeout=timeout_s), processes)]
    finally:
        for one in processes:
            end_job(one)
    return [
        Ended(folder, one.returncode, *texts) for one, texts in zip(processes, said, strict=True)
    ]


def launch(
    folder: Path, command: Sequence[object], variables: Mapping[str, str] | None = None
) -> Ended:
    """Run one command in `folder` to its end."""
    return wait(folder, start(folder, command, variables))[0]


def two_at_a_time(work: Callable[[Given], Result], items: Iterable[Given]) -> list[Result]:
    """Do the work for each item, as many at once as the smallest machine has cores."""
    with ThreadPoolExecutor(2) as pool:
        return [*pool.map(work, items)]


def srun_variables(
    rank: int, size: int, *, job: str = "4711", nodes: int = 1, step: str = "0"
) -> dict[str, str]:
    """Give what srun puts into the environment of one of its tasks."""
    per_node = size // nodes
    return {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_STEP_ID": step,
        "SLURM_STEPID": step,
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % per_node),
        "SLURM_NODEID": str(rank // per_node),
        "SLURM_NTASKS": str(size),
        "SLURM_NPROCS": str(size),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_TASKS_PER_NODE": f"{per_node}(x{nodes})" if nodes > 1 else str(per_node),
        "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{nodes})" if nodes > 1 else str(per_node),
    }


def open_mpi_variables(rank: int, size: int) -> dict[str, str]:
    """Give what Open MPI's mpirun puts into the environment of one of its processes."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_NODE_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
        "OMPI_UNIVERSE_SIZE": str(size),
        "PMIX_NAMESPACE": "prterun-host-4711@1",
        "PMIX_RANK": str(rank),
    }


def mpich_variables(rank: int, size: int) -> dict[str, str]:
    """Give what MPICH's or Intel MPI's mpirun (Hydra) puts into the environment of one process."""
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_FD": "9",
        "MPI_LOCALRANKID": str(rank),
        "MPI_LOCALNRANKS": str(size),
    }


def launch_by_environment(
    folder: Path,
    command: Sequence[object],
    variables: Variables,
    size: int = 2,
) -> Ended:
    """Start one process a rank with what a launcher would set; give the job as rank 0 ended."""
    jobs = [start(folder, command, variables(rank, size)) for rank in range(size)]
    ended = wait(folder, *jobs)
    assert {one.code for one in ended} == {ended[0].code}, [one.error[-2_000:] for one in ended]
    return ended[0]


def check_job(
    job: Ended,
    *,
    world: int,
    steps: int,
    nodes: int = 1,
    launcher: str | None = None,
    code: int = 0,
) -> dict[str, Any]:
    """Check what is true of each complete job, and give its summary."""
    assert job.code == code, job.error[-6_000:]
    assert "traintrace failed" not in job.error
    # Every rank, each with its own file, all of one run.
    assert job.steps() == {(0, rank): steps for rank in range(world)}, job.error[-3_000:]
    summary: dict[str, Any] = summary_of(job.run)
    run = summary["run"]
    assert (run["world_size"], run["ranks_seen"]) == (world, [*range(world)])
    assert run["nodes"] == {"expected": nodes, "seen": nodes}
    assert summary["counts"]["steps"] == steps
    if launcher is not None:
        assert Manifest.read(job.run).launcher == launcher
    # One process makes the report, once, when all ranks are in.
    assert job.error.count(REPORT) == 1
    written = json.loads((job.run / "final_summary.json").read_text("utf-8"))
    assert written["run"]["ranks_seen"] == run["ranks_seen"]
    return summary
