"""`traintrace run` around programs that do not train: what it passes on, refuses, makes and leaves alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from traintrace.runs.manifest import Manifest
from traintrace_reporting import concluding
from traintrace_reporting.cli import main

RUN = [sys.executable, "-m", "traintrace_reporting", "run"]
ECHO = "import sys, json; print(json.dumps(sys.argv[1:]))\n"
# What launchers of launchers set must not come from whoever runs the tests.
ALONE = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("SLURM_", "OMPI_", "PMI", "TORCHELASTIC_", "TRAINTRACE_"))
    and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK")
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "echo.py"
    path.write_text(ECHO, "utf-8")
    return path


def start(folder: Path, *arguments: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*RUN, *map(str, arguments)],
        cwd=folder,
        env=ALONE | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.mark.parametrize(
    "words", [["--help"], ["--run-name", "x", "-m"], ["--", "a", "-t", ""], []]
)
def test_all_that_follows_the_script_is_the_scripts_and_only_that_is_on_standard_output(
    script: Path, words: list[str]
) -> None:
    done = start(script.parent, "--run-name=given", script, *words)
    assert done.returncode == 0
    assert json.loads(done.stdout) == words
    assert (script.parent / "runs" / "given" / "manifest.json").is_file()


def test_a_module_is_run_as_python_does(script: Path) -> None:
    done = start(script.parent, "-m", "echo", "--help", "-m")
    assert json.loads(done.stdout) == ["--help", "-m"]
    assert only_run(script.parent).name.startswith("echo-2")


@pytest.mark.parametrize(
    ("code", "expected", "status"),
    [
        ("raise SystemExit(5)", 5, "failed"),
        ("raise ValueError('no')", 1, "failed"),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9, "lost"),
        ("import os; os.kill(os.getpid(), 15)", 128 + 15, "interrupted"),
        ("import os; os._exit(0)", 0, "completed"),
    ],
)
def test_the_exit_code_is_trainings_and_the_manifest_has_it(
    tmp_path: Path, code: str, expected: int, status: str
) -> None:
    (tmp_path / "job.py").write_text(code, "utf-8")
    assert start(tmp_path, "job.py").returncode == expected
    manifest = Manifest.read(only_run(tmp_path))
    assert (manifest.exit_code, manifest.status, manifest.telemetry_status) == (
        expected,
        status,
        "none",
    )
    assert manifest.training is not None
    assert [node.exit_code for node in manifest.training.nodes] == [expected]
    assert manifest.training.status == ("completed" if expected == 0 else "incomplete")


def test_a_script_that_does_not_train_gets_one_sentence_and_no_report(script: Path) -> None:
    done = start(script.parent, script)
    assert done.stderr == f"traintrace: no training was seen in {script}, so there is no report\n"
    run = only_run(script.parent)
    assert not (run / "final_summary.json").exists()


def test_a_name_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("open('started', 'a').write('x')", "utf-8")
    assert start(tmp_path, "--run-name", "mine", "job.py").returncode == 0
    before = (only_run(tmp_path) / "manifest.json").read_bytes()
    done = start(tmp_path, "--run-name", "mine", "job.py")
    assert done.returncode == 2
    assert "--run-name mine: there is a run of this name" in done.stderr
    assert (tmp_path / "started").read_text() == "x"
    assert (only_run(tmp_path) / "manifest.json").read_bytes() == before


def test_runs_without_a_name_that_start_together_are_apart(script: Path) -> None:
    jobs = [
        subprocess.Popen([*RUN, script], cwd=script.parent, env=ALONE, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [job.wait(120) for job in jobs] == [0, 0, 0]
    runs = [Manifest.read(run) for run in (script.parent / "runs").iterdir()]
    assert len({run.id for run in runs}) == len({run.name for run in runs}) == 3
    assert {run.status for run in runs} == {"completed"}


def test_a_run_folder_that_cannot_be_made_costs_the_trace_and_not_the_training(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.py").write_text("print('trained'); raise SystemExit(4)", "utf-8")
    (tmp_path / "runs").write_text("a file", "utf-8")
    done = start(tmp_path, "job.py")
    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert len(done.stderr.splitlines()) == 1
    assert "no run can be made in runs" in done.stderr


def test_disabled_nothing_is_made_and_nothing_said(script: Path) -> None:
    done = start(script.parent, "--disable", script, "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, '["x"]\n', "")
    assert not (script.parent / "runs").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--interval", "0"], "--interval 0.0: use seconds"),
        (["--retention", "0"], "--retention 0: use a number of at least 1"),
        (["--max-steps", "0"], "--max-steps"),
        (["--level", "deep"], "--level"),
        (["--run-name", ""], "--run-name ''"),
        (["--no-python"], "--no-python"),
        (["--levle", "host"], "--levle"),
        ([], "Missing argument"),
    ],
)
def test_bad_flags_end_with_code_2_and_are_named(
    script: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(script.parent)
    result = run_here("run", *options, *([script] if options else []))
    assert result.exit_code == 2
    assert told in result.stderr
    assert not (script.parent / "runs").exists()


def test_an_interrupt_is_left_to_training_and_the_run_is_completed(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import time\n"
        "try:\n    print('ready', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('saved'); raise SystemExit(7)\n",
        "utf-8",
    )
    job = subprocess.Popen(
        [*RUN, "job.py"],
        cwd=tmp_path,
        env=ALONE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    os.killpg(job.pid, signal.SIGINT)
    said, _ = job.communicate(timeout=60)
    assert (said, job.returncode) == ("saved\n", 7)
    manifest = Manifest.read(only_run(tmp_path))
    assert (manifest.status, manifest.exit_code) == ("failed", 7)


def run_here(*arguments: object) -> Result:
    words: Sequence[str] = [*map(str, arguments)]
    return CliRunner().invoke(main, words, env=_without_launcher())


def _without_launcher() -> dict[str, Any]:
    return {name: None for name in os.environ if name not in ALONE}


def test_a_program_that_cannot_be_started_leaves_a_run_that_says_so(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    result = CliRunner().invoke(main, ["run", "echo.py"])
    assert result.exit_code == 1
    assert "Error: /nowhere/python: No such file" in result.output
    manifest = Manifest.read(only_run(script.parent))
    assert (manifest.status, manifest.exit_code, manifest.telemetry_status) == ("failed", 1, "none")


def test_what_could_not_be_sent_is_said(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(concluding, "publish_leftovers", lambda place: [Path("/spool/rank.sqlite")])
    result = CliRunner().invoke(main, ["run", "echo.py"])
    assert result.exit_code == 0
    assert "1 of the rank files of" in result.output
    assert "could not be sent; kept here: /spool/rank.sqlite" in result.output
