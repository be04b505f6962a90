"""`traintrace watch`: what it says of a program that it looks at from outside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reporting.test_run import ALONE, only_run
from traintrace.ports import UsedDevice
from traintrace.runs.folder import open_run
from traintrace.runs.manifest import Manifest
from traintrace.samplers.program import visible_gpus
from traintrace_reporting.cli import main

WATCH = [sys.executable, "-m", "traintrace_reporting", "watch"]
# Holds 150 MB in a child and computes in itself for a second and a half.
PROGRAM = """\
import subprocess, sys, time
holds = "import sys; b = bytearray(150_000_000); print(flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
end = time.monotonic() + 1.5
while time.monotonic() < end:
    pass
child.communicate()
print(sorted(name for name in sys.modules if "traintrace" in name), sys.argv[1:])
sys.exit(6)
"""


def test_a_program_is_watched_with_its_children_and_nothing_is_put_into_it(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM, "utf-8")
    done = subprocess.run(
        [*WATCH, "--interval", "0.1", "job.py", "--help"],
        cwd=tmp_path,
        env=ALONE | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (6, "[] ['--help']\n"), done.stderr
    assert "The program failed, exit code 6." in done.stderr
    for label in ("Watched", "CPU", "Memory", "Machine"):
        assert f"\n{label} " in done.stderr
    assert "Verdict" not in done.stderr
    assert "step" not in done.stderr.replace("no steps are seen", "")

    run = only_run(tmp_path)
    manifest = Manifest.read(run)
    assert (manifest.plugin, manifest.status, manifest.exit_code) == ("watch", "failed", 6)
    (rank,) = open_run(run).facts(["step"]).ranks
    assert rank.status == "failed"
    assert len(rank.system) >= 2
    held = [reading.workers_rss_bytes or 0 for reading in rank.process]
    assert max(held) > 150_000_000
    assert max(reading.workers or 0 for reading in rank.process) == 1
    assert max(reading.cpu_cores or 0.0 for reading in rank.process) > 0.05

    again = CliRunner().invoke(main, ["report", str(run)])
    assert "from outside" in again.stdout
    (listed,) = json.loads(CliRunner().invoke(main, ["list", str(run.parent), "--json"]).stdout)
    assert (listed["verdict"], listed["status"]) == (None, "failed")


def test_a_program_that_is_over_at_once_has_a_report_too(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("", "utf-8")
    done = subprocess.run(
        [*WATCH, "job.py"], cwd=tmp_path, env=ALONE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "no steps are seen" in done.stderr
    assert Manifest.read(only_run(tmp_path)).status == "completed"


def test_the_gpus_that_a_program_may_use_are_counted_as_cuda_does() -> None:
    files = ["nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "null"]
    assert visible_gpus({}, files) == [UsedDevice(0), UsedDevice(1), UsedDevice(2)]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "2,0"}, files) == [UsedDevice(0), UsedDevice(1)]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, files) == [UsedDevice(0)]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, files) == []
    assert visible_gpus({}, ["null"]) == []


def test_a_program_that_cannot_be_started_leaves_a_run_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    result = CliRunner().invoke(main, ["watch", "job.py"])
    assert result.exit_code == 1
    assert "Error: /nowhere/python: No such file" in result.output
    assert Manifest.read(only_run(tmp_path)).status == "failed"
