"""The guard where several launchers start one job, and where a job is queued again."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reporting.test_guarded_run import GUARD, declare
from tests.reporting.test_run import run_here
from tests.reporting.test_run_launchers import PAIR
from traintrace.launch import Ended, LaunchPlan
from traintrace.runs.manifest import Manifest
from traintrace_reporting import concluding, launching
from traintrace_reporting.cli import main
from traintrace_reporting.guard_contract import contract_of

OTHER = GUARD | {"measurement": {"start_step": 5, "completed_steps": 21}}


@pytest.mark.parametrize("second", [GUARD, OTHER, None])
def test_launchers_that_declare_different_things_are_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, object] | None
) -> None:
    script = tmp_path / "job.py"
    script.write_text("", "utf-8")

    def first(plan: LaunchPlan) -> Ended:
        declare(tmp_path, guard=second)
        monkeypatch.setattr(launching, "start", lambda plan: Ended(0))
        result = run_here(*PAIR, script)
        assert (result.exit_code, "captured" in result.stderr) == (0, False)
        return Ended(0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launching, "start", first)
    declare(tmp_path)
    result = run_here(*PAIR, script)
    assert result.exit_code == 0
    assert "guard: measurement contract captured" in result.stderr
    manifest = Manifest.read(tmp_path / "runs" / "pair")
    assert manifest.guard is not None
    assert manifest.guard["digest"] == contract_of(GUARD).digest, (
        "the first launcher's, whatever follows"
    )
    assert manifest.guard["expected"]["nodes"] == 2
    assert manifest.training is not None
    expected = () if second == GUARD else ("node_outcome_conflict",)
    assert manifest.training.reasons == expected


def test_a_job_that_is_queued_again_cannot_declare_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_JOB_ID": "78",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "2",
        "SLURM_PROCID": "0",
        "SLURM_NODEID": "0",
        "SLURM_LOCALID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(concluding, "conclude", lambda *_: None)
    started: list[LaunchPlan] = []

    def start(plan: LaunchPlan) -> Ended:
        started.append(plan)
        return Ended(0)

    monkeypatch.setattr(launching, "start", start)
    (tmp_path / "job.py").write_text("", "utf-8")
    declare(tmp_path)
    assert CliRunner().invoke(main, ["run", "job.py"]).exit_code == 0
    assert CliRunner().invoke(main, ["run", "job.py"]).exit_code == 0, (
        "the same declaration goes on"
    )
    for guard in (OTHER, None):
        declare(tmp_path, guard=guard)
        result = CliRunner().invoke(main, ["run", "job.py"])
        assert result.exit_code == 2
        assert "this run was started with another guard" in result.stderr
    assert len(started) == 2
