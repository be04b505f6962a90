"""A guarded run from the settings file to the summary, and what `traintrace run` refuses."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.reporting.test_run import ALONE, RUN, only_run
from tests.reporting.test_run_traced import start
from traintrace.runs.manifest import Manifest
from traintrace_reporting.cli import main
from traintrace_reporting.guard_contract import contract_of
from traintrace_reporting.schema import validate

GUARD: dict[str, Any] = {
    "schema_version": 1,
    "workload": {"name": "tiny", "parameters": {"lr": "1e-3"}},
    "measurement": {"start_step": 5, "completed_steps": 20},
}


def declare(folder: Path, **others: object) -> None:
    content = {"guard": GUARD, **others}
    (folder / "traintrace.yaml").write_text(json.dumps(content), "utf-8")


def test_the_declaration_is_captured_confirmed_and_its_steps_are_in_the_summary(
    tmp_path: Path,
) -> None:
    declare(tmp_path)
    # What happens to the file later changes nothing.
    done = start(tmp_path, "open('traintrace.yaml', 'w').write('guard: 1')\ntrain()\n")
    assert done.returncode == 0, done.stderr
    contract = contract_of(GUARD)
    assert done.stderr.splitlines()[0] == f"traintrace: {contract.sentence}"
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("Guard ")]
    assert "tiny · steps 5 to 24 · " in told
    run = only_run(tmp_path)
    manifest = Manifest.read(run)
    assert manifest.guard == {
        "contract": contract.content,
        "digest": contract.digest,
        "expected": {"nodes": 1, "world_size": 1},
    }
    outcome = json.loads((run / "nodes/node-000/outcome.json").read_text("utf-8"))
    assert outcome["contract"] == contract.digest
    summary = json.loads((run / "final_summary.json").read_text("utf-8"))
    validate(summary)
    guard = summary["guard"]
    assert (guard["declaration"], guard["digest"]) == (contract.content, contract.digest)
    assert guard["launcher_completion"] == {
        "status": "completed",
        "nodes_expected": 1,
        "nodes_observed": 1,
        "reasons": [],
    }
    measured = guard["measurement"]
    assert measured["reason"] is None
    window = measured["step_time"]["window"]
    assert (window["start_step"], window["end_step"], window["steps"]) == (5, 24, 20)
    assert window["warmup_steps"] == 0
    assert measured["step_time"]["metrics"]["step_time"]["n"] == 20
    assert measured["statistics"]["metrics"]["step_time"]["log_mean"] is not None
    assert summary["step_time"]["window"]["end_step"] == 40, "the window is that of any run"


def test_measured_steps_that_training_never_reached_are_told(tmp_path: Path) -> None:
    guard = GUARD | {"measurement": {"start_step": 31, "completed_steps": 20}}
    declare(tmp_path, guard=guard)
    assert start(tmp_path, "train()\nraise SystemExit(3)\n").returncode == 3
    summary = json.loads((only_run(tmp_path) / "final_summary.json").read_text("utf-8"))
    validate(summary)
    assert summary["guard"]["measurement"]["reason"] == (
        "10 of 20 steps are there: training ended after step 40"
    )
    assert summary["coverage"]["section.guard"]["state"] == "partial"
    assert summary["guard"]["launcher_completion"]["reasons"] == ["node_training_failed"]


@pytest.mark.parametrize(
    ("settings", "options", "code", "told"),
    [
        ({"history_enabled": False}, [], 1, "traintrace.yaml: history_enabled: false: a guarded"),
        ({}, ["--max-steps", "23"], 2, "--max-steps 23: the guard measures steps 5 to 24"),
        ({"max_steps": 23}, [], 2, "record at least 24"),
        ({"mode": "watch"}, [], 1, "traintrace.yaml: mode: watch"),
    ],
)
def test_what_a_guard_cannot_have_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    options: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    declare(tmp_path, **settings)
    (tmp_path / "job.py").write_text("open('started', 'w')", "utf-8")
    result = CliRunner().invoke(main, ["run", *options, "job.py"])
    assert result.exit_code == code
    assert told in result.output
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "runs").exists()


def test_disabled_tracing_says_that_nothing_is_captured_and_trains(tmp_path: Path) -> None:
    declare(tmp_path)
    done = start(tmp_path, "print('trained')\n", "--disable")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.splitlines() == [
        "traintrace: guard: not captured, since tracing is off: this run can be compared with no other"
    ]


def test_watch_passes_over_the_declaration(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "job.py").write_text("pass", "utf-8")
    command = [*RUN[:-1], "watch", "job.py"]
    done = subprocess.run(command, cwd=tmp_path, env=ALONE, capture_output=True, check=False)
    assert done.returncode == 0
    assert Manifest.read(only_run(tmp_path)).guard is None
    assert b"guard" not in done.stderr
