"""The table of launchers: a plain loop under each gives one run with every rank and every step."""

import socket
from pathlib import Path

import pytest

from tests.labs.ranks import summary_of
from tests.launch.lab import (
    PLAIN,
    PYTHON,
    TORCHRUN,
    TORCHRUN_2,
    Ended,
    Variables,
    check_job,
    launch,
    launch_by_environment,
    mpich_variables,
    open_mpi_variables,
    srun_variables,
    start,
    wait,
)
from traintrace.runs.manifest import Manifest


def test_python_and_two_starts_from_one_shell_in_one_second_are_two_runs(tmp_path: Path) -> None:
    """The same command twice at once, in one folder; neither joins, names or waits for the other."""
    two = [start(tmp_path, (*PYTHON, PLAIN)) for _ in range(2)]
    jobs = wait(tmp_path, *two)
    assert [job.code for job in jobs] == [0, 0]
    first, second = jobs[0].runs
    assert len({Manifest.read(run).id for run in (first, second)}) == 2
    for run in (first, second):
        summary = summary_of(run)
        assert summary["counts"]["steps"] == 6
        assert (summary["run"]["world_size"], summary["run"]["ranks_seen"]) == (1, [0])
        assert summary["run"]["nodes"] == {"expected": 1, "seen": 1}
        assert Manifest.read(run).launcher == "none"


def test_torchrun(tmp_path: Path) -> None:
    job = launch(tmp_path, (*TORCHRUN_2, PLAIN))
    check_job(job, world=2, steps=6, launcher="torchrun")


def test_two_torchrun_agents_are_two_nodes_of_one_run(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-id", "job")
    command = (*TORCHRUN, *options, "--rdzv-endpoint", f"127.0.0.1:{port}", PLAIN)
    jobs = wait(tmp_path, *(start(tmp_path, command) for _ in range(2)))
    assert [job.code for job in jobs] == [0, 0], [job.error[-2_000:] for job in jobs]
    both = Ended(tmp_path, 0, "", jobs[0].error + jobs[1].error)
    check_job(both, world=2, nodes=2, steps=6, launcher="torchrun")
    assert [rank.node for rank in both.ranks] == [0, 1]


def test_a_restart_is_a_second_attempt_of_the_same_run(tmp_path: Path) -> None:
    """As D16 (PT#108158), without a process group: neither attempt is lost, none is a run of its own."""
    command = (*TORCHRUN_2, "--max-restarts", 1, PLAIN, "--join", "never")
    job = launch(tmp_path, (*command, "--steps", 10, "--crash-at", 5))
    assert job.code == 0, job.error[-3_000:]
    assert job.steps() == {(0, 0): 5, (0, 1): 5, (1, 0): 10, (1, 1): 10}
    attempts = summary_of(job.run)["run"]["attempts"]
    assert [(one["n"], one["steps"]) for one in attempts] == [(0, 5), (1, 10)]
    assert attempts[1]["downtime_before_s"] > 0


@pytest.mark.long
def test_accelerate_launch_on_cpu_starts_one_process(tmp_path: Path) -> None:
    """With `--cpu` accelerate starts one, however many are asked for; that is what the run says, too."""
    command = (*PYTHON, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", 2)
    job = launch(tmp_path, (*command, PLAIN))
    check_job(job, world=1, steps=6)


@pytest.mark.parametrize(
    ("launcher", "variables", "join"),
    [
        pytest.param("slurm", srun_variables, "late", id="srun-not-joined-yet"),
        pytest.param("mpi", open_mpi_variables, "file", id="mpirun-joined"),
        pytest.param("slurm", srun_variables, "file", id="srun-joined", marks=pytest.mark.long),
        pytest.param(
            *("mpi", open_mpi_variables, "late"), id="mpirun-not-joined-yet", marks=pytest.mark.long
        ),
    ],
)
def test_ranks_that_find_their_place_in_the_environment(
    tmp_path: Path, launcher: str, variables: Variables, join: str
) -> None:
    """Traced after the process group exists, and before: then only the job's id tells who belongs together."""
    job = launch_by_environment(tmp_path, (*PYTHON, PLAIN, "--join", join), variables)
    check_job(job, world=2, steps=6, launcher=launcher)


def test_an_mpirun_without_an_id_of_the_job_agrees_by_the_process_group(tmp_path: Path) -> None:
    command = (*PYTHON, PLAIN, "--join", "file")
    job = launch_by_environment(tmp_path, command, mpich_variables)
    check_job(job, world=2, steps=6, launcher="mpi")


def test_torch_multiprocessing_spawn(tmp_path: Path) -> None:
    """Nothing in the environment: the process group says who is who."""
    job = launch(tmp_path, (*PYTHON, PLAIN, "--spawn", 2, "--join", "file"))
    check_job(job, world=2, steps=6)


def test_a_run_that_the_user_names_in_the_environment_is_joined(tmp_path: Path) -> None:
    """For launchers that share no id: two processes, told their place by MPICH, before any process group."""
    run = tmp_path / "runs" / "mine"
    job = launch_by_environment(
        tmp_path,
        (*PYTHON, PLAIN, "--join", "never", "--name", "not-this-one"),
        lambda rank, size: {**mpich_variables(rank, size), "TRAINTRACE_RUN": str(run)},
    )
    check_job(job, world=2, steps=6)
    assert job.run == run
