"""`traintrace run` with torchrun's flags, and where several launchers start one job."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.reporting.test_run import ALONE, RUN, only_run, run_here, start
from traintrace.launch import Ended, LaunchPlan
from traintrace.runs.manifest import Manifest
from traintrace_reporting import launching
from traintrace_reporting.commands.torchrun_flags import FLAGS
from traintrace_reporting.runplace import LaunchedRun


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "echo.py"
    path.write_text("import sys; print(sys.argv[1:])\n", "utf-8")
    return path


def start_slurm_job(script: Path, **variables: str) -> list[int]:
    """Start a step of two tasks as srun does, each a launcher; give their exit codes."""
    step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_NNODES": "2"}
    jobs = [
        subprocess.Popen(
            [*RUN, script],
            cwd=script.parent,
            env=ALONE
            | step
            | {"SLURM_PROCID": rank, "SLURM_NODEID": rank, "SLURM_LOCALID": "0"}
            | variables,
            stdout=subprocess.DEVNULL,
        )
        for rank in ("0", "1")
    ]
    return [job.wait(120) for job in jobs]


def test_launchers_that_know_their_job_make_one_run(script: Path) -> None:
    assert start_slurm_job(script) == [0, 0]
    manifest = Manifest.read(only_run(script.parent))
    assert manifest.name == "echo-slurm-77.0"
    assert (manifest.launcher, manifest.world_size, manifest.nodes) == ("slurm", 2, 2)
    assert manifest.training is not None
    assert (manifest.training.nodes_observed, manifest.training.reasons) == (2, ())


def test_a_job_that_is_queued_again_goes_on_in_its_run(script: Path) -> None:
    script.write_text("raise SystemExit(143)", "utf-8")
    assert start_slurm_job(script) == [143, 143]
    before = Manifest.read(only_run(script.parent))
    script.write_text("", "utf-8")
    assert start_slurm_job(script, SLURM_RESTART_COUNT="1") == [0, 0]
    after = Manifest.read(only_run(script.parent))
    assert (before.status, before.exit_code) == ("interrupted", 143)
    assert (after.status, after.exit_code, after.id) == ("completed", 0, before.id)
    assert after.started_at == before.started_at


PAIR = ["run", "--nnodes", "2", "--rdzv-backend", "c10d", "--run-name", "pair"]


def test_launchers_that_nobody_numbers_agree_on_their_places(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(plan: LaunchPlan) -> Ended:
        monkeypatch.setattr(launching, "start", lambda plan: Ended(3))
        assert run_here(*PAIR, script).exit_code == 3
        return Ended(0)

    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(launching, "start", first)
    assert run_here(*PAIR, script).exit_code == 0
    run = script.parent / "runs" / "pair"
    training = Manifest.read(run).training
    assert training is not None
    assert [(node.node_rank, node.exit_code) for node in training.nodes] == [(0, 0), (1, 3)]
    assert training.reasons == ("node_training_failed",)
    assert Manifest.read(run).exit_code == 3  # the job failed, wherever that was
    assert run_here(*PAIR, script).exit_code == 2  # the run has ended: its name is taken


def test_a_launcher_that_never_comes_is_missed(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(launching, "start", lambda plan: Ended(0))
    assert run_here(*PAIR, "--wait-for-ranks", "0.1", script).exit_code == 0
    training = Manifest.read(script.parent / "runs" / "pair").training
    assert training is not None
    assert (training.nodes_observed, training.reasons) == (1, ("node_outcome_missing",))


def test_several_launchers_without_a_common_name_are_refused(script: Path) -> None:
    done = start(script.parent, "--nnodes", "2", script)
    assert done.returncode == 2
    assert "give each the same --run-name" in done.stderr
    assert not (script.parent / "runs").exists()


@pytest.mark.parametrize("underscores", [False, True])
def test_torchruns_flags_are_passed_on_in_both_spellings(
    script: Path, monkeypatch: pytest.MonkeyPatch, underscores: bool
) -> None:
    plans: list[LaunchPlan] = []

    def keep(plan: LaunchPlan) -> Ended:
        plans.append(plan)
        return Ended(0)

    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(launching, "start", keep)
    words, expected = [], []
    for flag in FLAGS:
        if flag.name == "nnodes":
            continue
        name = f"--{flag.name.replace('-', '_')}" if underscores else f"--{flag.name}"
        words += [name, "1"] if flag.value else [name]
        expected.append(f"--{flag.name}=1" if flag.value else f"--{flag.name}")
    result = run_here("run", *words, script, "--nproc-per-node", "9")
    assert result.exit_code == 0, result.stderr
    (plan,) = plans
    assert list(plan.torchrun) == expected
    assert plan.target.args == ("--nproc-per-node", "9")


def test_the_flags_are_all_that_torchrun_has_but_what_runs_no_python() -> None:
    from torch.distributed.run import get_args_parser

    known = {
        option.removeprefix("--")
        for action in get_args_parser()._actions
        for option in action.option_strings
        if option.startswith("--") and "_" not in option
    }
    assert known - {flag.name for flag in FLAGS} == {"help", "module", "no-python", "run-path"}


def test_a_place_that_never_answers_costs_the_trace_and_not_the_training(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, started = threading.Event(), []

    def start(plan: LaunchPlan) -> Ended:
        started.append(plan)
        return Ended(3)

    def ask(*asked: object) -> LaunchedRun:
        answer.wait(60)
        raise OSError("too late")

    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(launching, "START_S", 0.05)
    monkeypatch.setattr(launching, "make_run", ask)
    monkeypatch.setattr(launching, "start", start)
    try:
        outcome = run_here("run", script)
    finally:
        answer.set()
    assert outcome.exit_code == 3
    assert [plan.disable for plan in started] == [True]
    assert "runs did not answer within 0.05 s" in outcome.stderr
