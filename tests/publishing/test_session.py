"""Traced runs that are published, from the public door: `run_dir` is a URL, or on a network file system."""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from tests.labs.coresessions import start
from tests.labs.ranks import COLUMNS
from traintrace import open_run
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.publishing.fetch import fetch_run
from traintrace.publishing.location import location
from traintrace.publishing.place import LocationError
from traintrace.publishing.publisher import Publisher
from traintrace.session import Session
from traintrace_plain_torch.loop import Tracer
from traintrace_reporting.cli import main

STEPS = 6


def train(run_dir: str | Path, steps: int = STEPS, **options: Any) -> Tracer:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    asked = TraceOptions(run_dir=run_dir, name="x", publish_interval_s=0.1, **options)
    with Tracer(model, optimizer, asked, awaits_update=True) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * steps):
            with tracer.step():
                model(batch).sum().backward()
                optimizer.step()
    return tracer


def files(place: str) -> list[str]:
    return [name for name in location(place).files() if name != ".run-id"]


WHOLE = ["final_summary.json", "final_summary.txt", "manifest.json", "ranks/rank-00000.sqlite"]


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_run_is_published_and_reads_like_any_other(
    kind: str, tmp_path: Path, temporary_files: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = "memory://runs" if kind == "memory" else (tmp_path / "runs").as_uri()
    train(root)
    place = f"{root}/x"
    assert files(place) == WHOLE
    assert list(temporary_files.glob("traintrace*")) == []
    summary = json.loads((location(place) / "final_summary.json").read_bytes())
    assert (summary["run"]["status"], summary["run"]["name"]) == ("completed", "x")
    assert summary["counts"]["steps"] == STEPS
    assert summary["run"]["telemetry_status"] == "complete"
    assert place in capfd.readouterr().err
    run = open_run(fetch_run(place))
    (rank,) = run.facts(COLUMNS).ranks
    assert list(rank.columns["step"]) == list(range(1, STEPS + 1))
    assert run.status == "completed"


def test_a_second_run_of_one_name_gets_a_place_of_its_own() -> None:
    train("memory://runs")
    with pytest.warns(TraintraceWarning, match="'x' is taken; this run is called 'x-2'"):
        train("memory://runs")
    assert files("memory://runs/x") == files("memory://runs/x-2") == WHOLE


def test_a_network_file_system_never_holds_a_live_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary_files: Path
) -> None:
    monkeypatch.setattr(
        "traintrace.publishing.claims.network_file_system",
        lambda path: "nfs4" if str(path).startswith(str(tmp_path / "runs")) else None,
    )
    seen: list[list[str]] = []

    class Watching(nn.Linear):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            seen.append([name for _, _, names in os.walk(tmp_path / "runs") for name in names])
            return super().forward(batch)

    monkeypatch.setattr(nn, "Linear", Watching)
    with pytest.warns(TraintraceWarning, match=r"network file system \(nfs4\)"):
        train(tmp_path / "runs")
    assert seen
    # What is being written has a temporary name.
    found = {name for names in seen for name in names if not name.endswith(".tmp")}
    assert not [name for name in found if ".sqlite" in name and not name.endswith(".sqlite.gz")]
    assert files(str(tmp_path / "runs/x")) == WHOLE
    assert list(temporary_files.glob("traintrace*")) == []


def test_a_place_that_cannot_be_used_costs_no_run(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.warns(TraintraceWarning, match=r"s3://bucket.*pip install s3fs.*this run is in"):
        train("s3://bucket/runs", print_report=False)
    (manifest,) = temporary_files.rglob("manifest.json")
    assert open_run(manifest.parent).facts(COLUMNS).ranks[0].totals.steps == STEPS


def test_a_place_that_fails_meanwhile_keeps_the_rows_here_and_the_report_is_made(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(place: object, *rest: object) -> None:
        raise LocationError("the bucket is gone")

    kind = type(location("memory://x"))
    monkeypatch.setattr(kind, "upload", refuse)
    monkeypatch.setattr(kind, "write_bytes", refuse)
    monkeypatch.setattr(Publisher.close, "__defaults__", (0.3,))
    with pytest.warns(TraintraceWarning) as caught:
        train("memory://runs")
    texts = [str(entry.message) for entry in caught]
    assert len(texts) == 2, texts
    assert "the bucket is gone" in texts[0]
    (rank_file,) = temporary_files.rglob("rank-00000.sqlite")
    assert f"they are in {rank_file}" in texts[1]
    spool = rank_file.parents[1]
    assert json.loads((spool / "final_summary.json").read_text())["counts"]["steps"] == STEPS
    assert str(spool) in capfd.readouterr().err


def test_a_set_up_that_fails_leaves_nothing_here(temporary_files: Path) -> None:
    plugin = PluginIdentity("test", "1", "none", "1")
    session = Session(TraceOptions(run_dir="memory://runs", name="x"), plugin, Ports())
    assert list(temporary_files.glob("traintrace*"))
    with pytest.raises(RuntimeError, match="out of order"), session.setting_up():
        raise RuntimeError("out of order")
    assert list(temporary_files.glob("traintrace*")) == []


def test_the_report_of_a_url_is_made_again_and_written_there(temporary_files: Path) -> None:
    train("memory://runs", print_report=False)
    place = location("memory://runs/x")
    for name in ("final_summary.json", "final_summary.txt"):
        (place / name).remove()
    result = CliRunner().invoke(main, ["report", "memory://runs/x"])
    assert result.exit_code == 0, result.output
    assert "completed" in result.output
    assert files("memory://runs/x") == WHOLE
    made = (place / "final_summary.json").modified()
    again = CliRunner().invoke(main, ["report", "memory://runs/x", "--json"])
    assert json.loads(again.output)["counts"]["steps"] == STEPS
    assert (place / "final_summary.json").modified() == made


@pytest.mark.parametrize("kind", ["memory", "file", "path"])
def test_a_rank_says_where_its_published_run_is_and_brings_no_copy_here(
    kind: str, tmp_path: Path, temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "path":
        monkeypatch.setattr("traintrace.publishing.claims.network_file_system", lambda path: "nfs4")
    roots: dict[str, str | Path] = {
        "memory": "memory://runs",
        "file": (tmp_path / "runs").as_uri(),
        "path": tmp_path / "runs",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraintraceWarning)  # it is published, on a path
        tracer = train(roots[kind], print_report=False)
    assert tracer.run_folder == (None if kind == "memory" else tmp_path / "runs" / "x")
    assert tracer.run_place == (
        str(tmp_path / "runs" / "x") if kind == "path" else f"{roots[kind]}/x"
    )
    assert list(temporary_files.glob("traintrace*")) == []
    assert tracer.run_place is not None
    assert fetch_run(tracer.run_place).is_dir()


def test_a_run_under_way_is_reported_and_nothing_is_written(temporary_files: Path) -> None:
    reports: list[Result] = []

    class Reporting(nn.Linear):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            while "ranks" not in " ".join(files("memory://runs/x")) and not reports:
                if any(name.startswith("segments") for name in files("memory://runs/x")):
                    asked = ["report", "memory://runs/x", "--json"]
                    reports.append(CliRunner().invoke(main, asked))
                time.sleep(0.01)
            return super().forward(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn, "Linear", Reporting)
        train("memory://runs", print_report=False)
    (report,) = reports
    assert report.exit_code == 0, report.output
    assert json.loads(report.output)["run"]["status"] == "running"


def test_a_url_without_a_run_is_a_bad_input() -> None:
    result = CliRunner().invoke(main, ["report", "memory://nothing/here"])
    assert result.exit_code == 1
    assert "no run here" in result.output


DYING = """
session = open_session(sys.argv[2], print_report=False, publish_interval_s=0.1)
step(session, 2)
session.flush()
place = Path(sys.argv[3])
while "die" in sys.argv:
    if list(place.rglob("*.sqlite.gz")) and (place / "manifest.json").exists():
        os.kill(os.getpid(), 9)
    time.sleep(0.01)
session.finish("completed")
"""


@pytest.mark.parametrize("end", ["die", "ends"])
def test_a_place_that_a_run_was_published_at_keeps_that_run(tmp_path: Path, end: str) -> None:
    """Also where the machine that recorded it is another one: nothing of it lies here."""
    place = tmp_path / "runs" / "x"
    found = []
    for temporary, last in (("one", end), ("other", "ends")):
        (tmp_path / temporary).mkdir()
        variables = {"TRAINTRACE_RUN": place.as_uri(), "TMPDIR": str(tmp_path / temporary)}
        words = ((tmp_path / "runs").as_uri(), str(place), last)
        with start(DYING, tmp_path, *words, **variables) as process:
            _, errors = process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if last == "die" else 0), errors
        found.append({path: path.read_bytes() for path in place.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    (rank,) = open_run(tmp_path / "runs" / "x-2").facts([]).ranks
    assert (rank.status, rank.totals.steps) == ("completed", 2)
