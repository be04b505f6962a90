"""Who a process is, from the variables of each launcher, alone, nested and against each other."""

from pathlib import Path

import pytest

from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.runs.identity import Identity
from traintrace.session import Session

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "none",
}
BY_HAND = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}
SRUN = {
    "SLURM_JOB_ID": "123",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_MCA_ess_base_jobid": "77",
    "OMPI_MCA_orte_hnp_uri": "77.0;tcp://10.0.0.1:4000",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
LIGHTNING = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "4000"}


def identity(*variables: dict[str, str]) -> Identity:
    merged: dict[str, str] = {}
    for one in variables:
        merged |= one
    return Identity.from_environment(merged)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Identity()),
        (TORCHRUN, Identity(3, 1, 4, 1, 2, launcher="torchrun")),
        (
            TORCHRUN | {"ACCELERATE_MIXED_PRECISION": "no"},
            Identity(3, 1, 4, 1, 2, launcher="accelerate"),
        ),
        (BY_HAND, Identity(3, 1, 4)),
        (BY_HAND | {"NODE_RANK": "1"}, Identity(3, 1, 4, 1, 2)),
        (BY_HAND | {"RAY_JOB_ID": "01000000"}, Identity(3, 1, 4, launcher="ray")),
        (SRUN, Identity(5, 1, 8, 1, 2, launcher="slurm", job="slurm-123.0")),
        (MPICH, Identity(1, 1, 2, launcher="mpi")),
        (LIGHTNING, Identity(1, 1, 2, launcher="lightning")),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"},
            Identity(1, 0, 2, launcher="mpi"),
        ),
        ({"RANK": "x", "WORLD_SIZE": "4"}, Identity()),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, Identity()),
        ({"RANK": "²", "WORLD_SIZE": "4"}, Identity()),
        ({"TORCHELASTIC_RESTART_COUNT": "2"}, Identity(attempt=2)),
        ({"SLURM_RESTART_COUNT": "1"}, Identity(attempt=1)),
        ({"TRAINTRACE_RUN": "/r"}, Identity(shared_run="/r")),
        ({"TRAINTRACE_RUN": ""}, Identity()),
    ],
)
def test_each_launcher_is_understood(variables: dict[str, str], expected: Identity) -> None:
    found = identity(variables)
    assert found == expected
    assert found.doubts == ()


def test_every_start_of_a_requeued_torchrun_has_a_number_of_its_own() -> None:
    starts = [
        identity(
            {
                "SLURM_RESTART_COUNT": str(requeued),
                "TORCHELASTIC_RESTART_COUNT": str(restarts),
                "TORCHELASTIC_MAX_RESTARTS": "2",
            }
        ).attempt
        for requeued in range(3)
        for restarts in range(3)
    ]
    assert starts == sorted(set(starts))


def test_ranks_of_open_mpi_share_an_id_that_another_day_s_job_has_not() -> None:
    found = identity(OPEN_MPI)
    assert (found.rank, found.local_rank, found.world_size) == (5, 1, 8)
    assert (found.node, found.nodes, found.launcher) == (1, 2, "mpi")
    other = identity(OPEN_MPI, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert found.job is not None
    assert other.job == found.job
    later = identity(OPEN_MPI, {"OMPI_MCA_orte_hnp_uri": "77.0;tcp://10.0.0.1:4999"})
    assert later.job not in (None, found.job)
    assert "10.0.0.1" not in found.job


def test_a_number_that_comes_again_is_no_id_where_nothing_tells_two_jobs_apart() -> None:
    numbered = {"PMIX_NAMESPACE": "77"}
    found, later = (
        identity(OPEN_MPI, numbered, {"OMPI_MCA_orte_hnp_uri": f"77.0;tcp://10.0.0.1:{port}"})
        for port in (4000, 4999)
    )
    assert None not in (found.job, later.job)
    assert found.job != later.job
    bare = {k: v for k, v in OPEN_MPI.items() if not k.startswith("OMPI_MCA")} | numbered
    assert identity(bare).job is None
    assert identity(bare, {"OMPI_MCA_orte_hnp_uri": "77.0;tcp://10.0.0.1:4000"}).job is not None
    named = identity(bare, {"PMIX_NAMESPACE": "prterun-node7-4711@1"})
    assert named.job not in (None, found.job)


@pytest.mark.parametrize(
    "variables",
    [
        # salloc's shell and sbatch's script know the size of what they were given.
        {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
        {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "4"},
        # salloc with an interactive step, which has a number beyond all others.
        SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"},
        # srun -n 8 --pty bash
        SRUN | {"SLURM_PROCID": "0", "SLURM_PTY_PORT": "40123", "SLURM_JOB_NAME": "bash"},
    ],
)
def test_a_python_in_a_shell_of_slurm_is_alone(variables: dict[str, str]) -> None:
    assert identity(variables) == Identity()


def test_a_step_inside_such_a_shell_is_a_job() -> None:
    inherited = {"SLURM_PTY_PORT": "40123", "SLURM_JOB_NAME": "interactive", "SLURM_STEP_ID": "1"}
    found = identity(
        SRUN, inherited, {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    )
    assert (found.rank, found.world_size, found.job) == (0, 8, "slurm-123.1")


def test_torchrun_counts_where_srun_started_it_on_each_node() -> None:
    found = identity(SRUN, {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, TORCHRUN)
    assert found == Identity(3, 1, 4, 1, 2, launcher="torchrun")
    assert found.doubts == ()


def test_mpirun_counts_inside_a_slurm_job() -> None:
    # mpirun starts its own helper on each node by srun, and the ranks inherit the helper's place.
    found = identity(SRUN, OPEN_MPI, {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"})
    assert (found.rank, found.launcher, found.doubts) == (5, "mpi", ())


def test_slurm_says_more_than_the_pmi_that_it_speaks() -> None:
    found = identity(SRUN, {"PMI_RANK": "5", "PMI_SIZE": "8"})
    assert (found.launcher, found.job, found.node) == ("slurm", "slurm-123.0", 1)


def test_ranks_exported_from_the_launcher_s_own_are_the_launcher_s() -> None:
    found = identity(SRUN, {"RANK": "5", "WORLD_SIZE": "8"})
    assert found == identity(SRUN)
    assert found.doubts == ()


def test_processes_that_each_task_started_are_no_contradiction() -> None:
    each = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    found = identity(SRUN, each, {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"})
    assert (found.rank, found.world_size, found.doubts) == (3, 4, ())


@pytest.mark.parametrize(
    ("outer", "name"),
    [(SRUN, "SLURM_PROCID"), (OPEN_MPI, "OMPI_COMM_WORLD_RANK")],
)
def test_a_contradiction_names_both_and_the_nearest_counts(
    outer: dict[str, str], name: str
) -> None:
    found = identity(outer, {"RANK": "0", "WORLD_SIZE": "8"})
    assert (found.rank, found.world_size, found.job) == (0, 8, None)
    (doubt,) = found.doubts
    assert "RANK=0" in doubt
    assert f"{name}=5" in doubt


def test_a_rank_outside_its_world_is_left_out_and_named() -> None:
    found = identity({"RANK": "9", "WORLD_SIZE": "4"})
    assert found == Identity()
    (doubt,) = found.doubts
    assert "RANK=9" in doubt
    assert "WORLD_SIZE=4" in doubt


def test_a_contradiction_is_told_once(tmp_path: Path, faults_are_reported: None) -> None:
    options, who = TraceOptions(run_dir=tmp_path), PluginIdentity("test", "0", "none", "0")
    doubtful = identity({"RANK": "9", "WORLD_SIZE": "4"})
    with pytest.warns(TraintraceWarning, match="RANK=9") as caught:
        session = Session(options, who, Ports(), identity=doubtful)
        session.begin()
        session.finish("completed")
    assert len(caught) == 1
    (rank,) = session.as_run().facts(["step"]).ranks
    assert "RANK=9" in " ".join(rank.warnings)
