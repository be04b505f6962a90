"""Cells at a prompt: a span in several cells, a cell that raises, a cell that is run again."""

import code
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from traintrace import TraintraceWarning, open_run
from traintrace_plain_torch import Tracer, trace

SETUP = """\
import sys, time, torch
from torch.utils.data import DataLoader
from traintrace_plain_torch import trace
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([torch.ones(4)] * 6, batch_size=2)
def step(batch):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def begin(name):
    return trace(model, optimizer, run_dir=sys.argv[1], name=name, print_report=False).start()

"""


class Cells:
    """A prompt in this process: cells run one after the other, and errors are shown, not raised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._console = code.InteractiveConsole()
        for line in SETUP.splitlines():
            self._console.push(line.replace("sys.argv[1]", repr(str(folder))))

    def __call__(self, *cells: str) -> None:
        for cell in cells:
            self._console.runcode(compile(textwrap.dedent(cell).strip() + "\n", "<cell>", "exec"))

    def value(self, name: str) -> str:
        return str(self._console.locals[name])

    def summary(self, name: str) -> Any:
        return json.loads((self._folder / name / "final_summary.json").read_text("utf-8"))


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cells:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    return Cells(tmp_path)


def test_a_span_over_several_cells_has_the_time_between_them_in_gap(cells: Cells) -> None:
    cells(
        "tracer = begin('run')",
        "for batch in loader: step(batch)",
        "time.sleep(0.05)",
        "for batch in loader: step(batch)",
        "tracer.close()",
    )
    summary = cells.summary("run")
    assert summary["run"]["status"] == "completed"
    assert summary["counts"]["steps"] == 6
    assert summary["wall"]["accounts_ns"]["gap"] >= 5e7


@pytest.mark.parametrize("again", ["tracer = begin('second')", "tracer.start()"])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "ValueError"])
def test_a_cell_that_raised_is_run_again_and_records(cells: Cells, again: str, error: str) -> None:
    cells(
        "tracer = begin('first')",
        f"""
        for batch in loader:
            step(batch)
            raise {error}
        """,
        again,
        "for batch in loader: step(batch)",
        "tracer.close()",
        "second = tracer.run_folder.name",
    )
    first = cells.summary("first")
    assert (first["run"]["status"], first["counts"]["steps"]) == ("interrupted", 0)
    assert sum("was still open" in warning for warning in first["warnings"]) == 1
    second = cells.summary(cells.value("second"))
    assert (second["run"]["status"], second["counts"]["steps"]) == ("completed", 3)
    assert not any("was still open" in warning for warning in second["warnings"])


def test_a_cell_that_raised_and_goes_on_in_the_same_span_drops_its_step(cells: Cells) -> None:
    cells(
        "tracer = begin('run')",
        """
        for batch in loader:
            model(batch).mean().backward()
            raise KeyboardInterrupt
        """,
        "time.sleep(0.05)",
        "for batch in loader: step(batch)",
        "tracer.close()",
    )
    counts = cells.summary("run")["counts"]
    assert (counts["steps"], counts["steps_aborted"], counts["micro_batches"]) == (3, 1, 3)


def test_at_a_real_prompt_a_span_left_open_ends_with_it(tmp_path: Path) -> None:
    lines = [
        *SETUP.splitlines(),
        "tracer = begin('first')",
        "for batch in loader: step(batch)",
        "",
        "1 / 0",
        "tracer = begin('second')",
        "for batch in loader: step(batch)",
        "",
    ]
    (tmp_path / "start.py").write_text("", "utf-8")
    done = subprocess.run(
        [sys.executable, "-i", str(tmp_path / "start.py"), str(tmp_path / "runs")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("was still open") == 1
    for name, status in (("first", "interrupted"), ("second", "completed")):
        summary = json.loads((tmp_path / "runs" / name / "final_summary.json").read_text("utf-8"))
        assert (summary["run"]["status"], summary["counts"]["steps"]) == (status, 3)


def tracers(folder: Path) -> tuple[Tracer, Tracer]:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return (
        trace(model, optimizer, run_dir=folder, name="first", print_report=False),
        trace(model, optimizer, run_dir=folder, name="second", print_report=False),
    )


def test_in_a_script_an_open_span_stays_open(tmp_path: Path) -> None:
    first, second = tracers(tmp_path)
    first.start()
    with pytest.warns(TraintraceWarning, match="active"):
        second.start()
    assert first.start() is first
    assert second.run_folder is None
    with pytest.warns(TraintraceWarning, match="no step"):
        first.close()


def test_a_with_block_at_the_prompt_is_never_ended_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    first, second = tracers(tmp_path)
    with first:
        with pytest.warns(TraintraceWarning, match="active"):
            second.start()
        for _ in range(2):
            with first.step():
                first._session.capture.updated = True  # type: ignore[union-attr]
    assert first.run_folder is not None
    assert open_run(first.run_folder).facts([]).ranks[0].totals.steps == 2


def test_a_span_that_stopped_recording_gives_way_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    model = nn.Linear(4, 1)
    tracer = trace(model, run_dir=tmp_path, max_steps=1, print_report=False).start()
    with tracer.step():
        time.sleep(0.001)
    folder = tracer.run_folder
    with pytest.warns(TraintraceWarning, match="was still open"):
        tracer.start()
    assert tracer.run_folder != folder
    with tracer.step():
        time.sleep(0.001)
    tracer.close()
