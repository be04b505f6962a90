"""`traintrace guard pairs` with real processes, the walk-through of two ranks, and the recipe for CI."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.labs.guarded import make_summary
from tests.reporting.test_guarded_pair import SCRIPT
from tests.reporting.test_run import ALONE
from traintrace_reporting import guard_runs
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary

EXAMPLE = Path(__file__).parents[2] / "examples" / "guard"


@pytest.fixture(autouse=True)
def no_job_around(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What launchers of launchers set must not come from whoever runs the tests."""
    with monkeypatch.context() as patch:
        for name in set(os.environ) - set(ALONE):
            patch.delenv(name)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def test_a_run_is_trained_in_its_own_folder_and_place(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT, "utf-8")
    side = guard_runs.side_of("A", "--max-steps 25 train.py 0.001", tmp_path / "code")
    made = guard_runs.train(side, str(tmp_path / "runs"), "guard-01a")
    assert made.path == tmp_path / "runs" / "guard-01a" / "final_summary.json"
    assert made.summary["counts"]["steps"] == 25
    step = made.as_run(guarded=False).metrics["step_time"]
    assert step.log_mean is not None


def test_a_command_that_fails_ends_the_guard_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("raise SystemExit('out of memory')\n", "utf-8")
    words = ["--a", f"{tmp_path}/good.py --lr 1", "--b", "never.py", "--run-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["guard", "pairs", *words])
    assert result.exit_code == 1
    assert f"A failed with exit code 1: {tmp_path}/good.py --lr 1" in result.stderr
    assert "out of memory" in result.stderr
    assert result.stdout == ""


def test_a_command_that_trains_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("print('no training here')\n", "utf-8")
    words = ["--a", f"{tmp_path}/nothing.py", "--b", "never.py", "--run-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["guard", "pairs", *words])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"A trained no step: {tmp_path}/nothing.py" in result.stderr


@pytest.mark.long
def test_pairs_of_the_same_training_do_not_fail(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, "utf-8")
    command = f"{tmp_path}/train.py 0.01"
    words = ["--a", command, "--b", command, "--run-dir", str(tmp_path / "runs")]
    result = CliRunner().invoke(main, ["guard", "pairs", *words, "--max-pairs", "4"])
    assert result.exit_code in (0, 3), result.output
    assert len(list((tmp_path / "runs").glob("guard-*/final_summary.json"))) == 8


def test_the_walk_through_of_two_ranks_leaves_runs_and_a_comparison(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{ALONE['PATH']}"
    done = subprocess.run(
        ["sh", str(EXAMPLE / "walkthrough.sh"), str(tmp_path)],
        env=ALONE | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    # 3: on a busy machine two such small runs may tell nothing at all.
    assert done.returncode in (0, 3), done.stderr
    assert "WITHIN_THRESHOLD" in done.stdout or "FASTER" in done.stdout or done.returncode == 3
    assert done.stderr.count("measurement contract captured: ddp-minimal-guard-trial") == 2
    assert "steps 11 to 60" in done.stdout
    for ending in (".json", ".txt"):
        assert (tmp_path / f"guard-reference-vs-candidate{ending}").exists()


def test_the_recipe_for_ci_is_a_workflow_whose_guard_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow: dict[Any, Any] = yaml.safe_load((EXAMPLE / "github-actions.yml").read_text("utf-8"))
    assert "pull_request" in workflow[True]  # PyYAML takes `on` for a truth value
    (job,) = workflow["jobs"].values()
    lines = [step["run"] for step in job["steps"] if "traintrace guard" in step.get("run", "")]
    assert len(lines) == 1
    *words, arrow, file = shlex.split(lines[0])
    assert (words[0], arrow) == ("traintrace", ">")
    kept = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert file in kept["with"]["path"].split()
    folders = [step["with"]["path"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    monkeypatch.chdir(tmp_path)
    for folder in folders:
        (tmp_path / folder).mkdir()
    started: list[tuple[str, Path | None, str]] = []

    def train(side: guard_runs.Side, run_dir: str, name: str) -> Input:
        started.append((side.name, side.folder, run_dir))
        jitter = 0.02 + 0.0005 * len(started)
        return Input(Path(run_dir), Summary(make_summary(name, steps=60, jitter=jitter)))

    monkeypatch.setattr(guard_runs, "train", train)
    result = CliRunner().invoke(main, words[1:])
    assert result.exit_code == 0, result.output
    assert set(started) == {
        ("A", Path("base"), str(tmp_path / "guard-runs")),
        ("B", Path("head"), str(tmp_path / "guard-runs")),
    }
    assert "guard-runs/" in kept["with"]["path"].split()
