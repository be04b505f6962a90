"""`traintrace run` around scripts that train: the report, the settings, and what stays of the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reporting.test_run import ALONE, RUN, only_run
from traintrace.runs.manifest import Manifest

TRAIN = """\
import sys
import torch

def train():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(160, 8))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4):
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

"""


def start(folder: Path, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(TRAIN + script, "utf-8")
    return subprocess.run(
        [*RUN, *options, "train.py"],
        cwd=folder,
        env=ALONE | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_loop_that_knows_nothing_of_us_gets_a_report_and_keeps_its_exit_code(
    tmp_path: Path,
) -> None:
    done = start(tmp_path, "train()\nprint('done')\nsys.exit(3)\n", "--run-name", "mine")
    assert (done.returncode, done.stdout) == (3, "done\n"), done.stderr
    assert "Training failed after 40 completed steps, exit code 3." in done.stderr
    run = only_run(tmp_path)
    manifest = Manifest.read(run)
    assert (manifest.name, manifest.status, manifest.exit_code) == ("mine", "failed", 3)
    assert (manifest.plugin, manifest.telemetry_status) == ("plain_torch", "complete")
    summary = json.loads((run / "final_summary.json").read_text("utf-8"))
    assert (summary["counts"]["steps"], summary["run"]["exit_code"]) == (40, 3)
    assert summary["run"]["id"] == manifest.id


def test_without_history_the_report_stays_and_is_printed_again(tmp_path: Path) -> None:
    (tmp_path / "traintrace.yaml").write_text(
        "history_enabled: false\nmax_steps: 30\nlevel: host\nprint_report: false\n", "utf-8"
    )
    done = start(tmp_path, "train()\n")
    assert (done.returncode, done.stderr) == (0, "")
    run = only_run(tmp_path)
    assert list(run.rglob("*.sqlite*")) == []
    for _ in range(2):
        command = [sys.executable, "-m", "traintrace_reporting", "report", str(run), "--json"]
        again = subprocess.run(command, capture_output=True, text=True, check=True)
        summary = json.loads(again.stdout)
        assert (summary["counts"]["steps"], summary["overhead"]["level"]) == (30, "host")
        assert summary["run"]["status"] == "completed"


def test_each_run_of_a_script_that_trains_twice_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("traintrace_plain_torch")
    script = (
        "from traintrace_plain_torch import trace\n"
        "for _ in range(2):\n    with trace():\n        train()\n"
    )
    done = start(tmp_path, script, "--run-name", "twice")
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "runs").iterdir())
    assert [run.name for run in runs] == ["twice", "twice-2"]
    first, second = map(Manifest.read, runs)
    assert second.part_of == first.id
    for run, manifest in zip(runs, (first, second), strict=True):
        assert (manifest.status, manifest.exit_code) == ("completed", 0)
        assert (run / "final_summary.json").is_file()
        assert f"in               {run.relative_to(tmp_path)}\n" in done.stderr


def test_a_script_that_leaves_without_an_end_has_a_report_that_says_so(tmp_path: Path) -> None:
    script = "train()\nimport os, time; time.sleep(0.7); train(); os._exit(0)\n"
    done = start(tmp_path, script, "--run-name", "mine")
    assert done.returncode == 0
    assert "ended without a word" in done.stderr
    manifest = Manifest.read(only_run(tmp_path))
    assert (manifest.status, manifest.telemetry_status) == ("completed", "partial")
