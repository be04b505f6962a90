"""Two guarded runs of real training and the decision about them, by run folder and by file."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.reporting.test_guarded_run import GUARD, declare
from tests.reporting.test_run import ALONE, RUN
from traintrace_reporting.cli import main

SCRIPT = """\
import sys, time
import torch

class Slow(torch.nn.Linear):
    def forward(self, batch):
        time.sleep(float(sys.argv[1]))
        return super().forward(batch)

model = Slow(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(120, 8))
for (batch,) in torch.utils.data.DataLoader(data, batch_size=4):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def train(folder: Path, name: str, forward_s: float) -> None:
    done = subprocess.run(
        [*RUN, "--run-name", name, "train.py", str(forward_s)],
        cwd=folder,
        env=ALONE | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def decide(a: Path, b: Path, percent: float, *options: str) -> Result:
    words = [str(a), str(b), "--max-step-time-regression-pct", str(percent), *options]
    return CliRunner().invoke(main, ["compare", *words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs "before" and "after", whose forward takes 20 and 80 ms."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "train.py").write_text(SCRIPT, "utf-8")
    declare(folder)
    train(folder, "before", 0.02)
    train(folder, "after", 0.08)
    declare(folder, guard=GUARD | {"workload": {"name": "another"}})
    train(folder, "another", 0.02)
    return folder / "runs"


def test_r12_a_slower_forward_fails_the_check_and_is_named(runs: Path, tmp_path: Path) -> None:
    result = decide(runs / "before", runs / "after", 20, "--output", str(tmp_path / "cmp"))
    assert result.exit_code == 4, result.output
    content = json.loads((tmp_path / "cmp.json").read_text("utf-8"))
    assert content["guard"]["phase"] == "forward"
    assert content["guard"]["measured_steps"] == {"start": 5, "end": 24}
    # The line comes first; on a slow machine its numbers are so long that it is broken in two.
    line = result.stdout.partition("\n\n")[0]
    assert "SLOWER" in line
    assert "forward" in line


def test_a_wide_threshold_and_the_other_order_pass_from_files_alone(
    runs: Path, tmp_path: Path
) -> None:
    files = []
    for name in ("before", "after"):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_bytes((runs / name / "final_summary.json").read_bytes())
    assert decide(files[0], files[1], 1000).exit_code == 0
    faster = decide(files[1], files[0], 5, "--json")
    assert faster.exit_code == 0
    assert json.loads(faster.stdout)["guard"]["outcome"] == "FASTER"


def test_another_workload_decides_nothing(runs: Path) -> None:
    result = decide(runs / "before", runs / "another", 1000)
    assert result.exit_code == 3
    assert "workload.name" in result.stdout


def test_a_guarded_run_is_never_written_over(runs: Path) -> None:
    before = (runs / "before" / "manifest.json").read_bytes()
    done = subprocess.run(
        [*RUN, "--run-name", "before", "train.py", "0"],
        cwd=runs.parent,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is a run of this name" in done.stderr
    assert "captured" not in done.stderr
    assert (runs / "before" / "manifest.json").read_bytes() == before
