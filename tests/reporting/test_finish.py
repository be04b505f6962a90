"""A run's end: both files whole, one warning at most, and the report printed whatever happens."""

import copy
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traintrace import NewerSchemaError, RunReadError, TraintraceWarning, open_run
from traintrace.runs.manifest import Manifest
from traintrace_reporting import finish
from traintrace_reporting.finish import Summary, finish_run, read_or_make, read_summary
from traintrace_reporting.schema import validate
from traintrace_reporting.text import render_text

NewManifest = Callable[..., Manifest]


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch, input_bound: dict[str, Any]) -> list[Path]:
    """Let every folder be analysed as the input-bound sample; give the folders that were."""
    asked: list[Path] = []

    def summarise(path: Path) -> Summary:
        asked.append(path)
        return Summary(input_bound)

    monkeypatch.setattr(finish, "summarise_run", summarise)
    return asked


@pytest.fixture
def older(input_bound: dict[str, Any]) -> Summary:
    """The input-bound sample as version 0.1 wrote it."""
    summary = Summary(copy.deepcopy(input_bound), schema_version="0.1")
    del summary["setup"]["batch_bytes"], summary["setup"]["loader"]["reads_for_all"]
    del summary["environment"]["cpu"], summary["environment"]["flags"]
    for metric in summary["step_time"]["metrics"].values():
        for name in ("start", "end", "drift", "tail"):
            del metric[name]
    return summary


def test_a_finished_run_leaves_both_files_and_a_printed_report(
    tmp_path: Path, analysed: list[Path]
) -> None:
    page = io.StringIO()
    summary = finish_run(tmp_path, print_report=True, stream=page)
    assert json.loads((tmp_path / "final_summary.json").read_text("utf-8")) == summary
    assert (tmp_path / "final_summary.txt").read_text("utf-8") == render_text(summary)
    assert "INPUT_BOUND" in page.getvalue()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "final_summary.json",
        "final_summary.txt",
    ]


def test_the_report_goes_to_standard_error_by_default(
    tmp_path: Path, analysed: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    finish_run(tmp_path, print_report=True, stream=None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "INPUT_BOUND" in captured.err


def test_nothing_is_printed_unless_asked(
    tmp_path: Path, analysed: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    finish_run(tmp_path, print_report=False, stream=None)
    assert capsys.readouterr() == ("", "")


def test_a_full_disk_gives_one_warning_and_the_report_all_the_same(
    tmp_path: Path, analysed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    page = io.StringIO()
    with pytest.warns(TraintraceWarning, match="could not be written") as warned:
        finish_run(tmp_path, print_report=True, stream=page)
    assert len(warned) == 1
    assert "INPUT_BOUND" in page.getvalue()
    assert "final_summary" not in page.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_summary_whole(
    tmp_path: Path, analysed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "final_summary.json").write_text("old", "utf-8")

    def broken(*_: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.warns(TraintraceWarning):
        finish_run(tmp_path, print_report=False, stream=None)
    assert (tmp_path / "final_summary.json").read_text("utf-8") == "old"


def test_a_closed_stream_gives_a_warning_and_not_an_error(
    tmp_path: Path, analysed: list[Path]
) -> None:
    page = io.StringIO()
    page.close()
    with pytest.warns(TraintraceWarning, match="could not be printed"):
        finish_run(tmp_path, print_report=True, stream=page)


def test_a_folder_with_both_files_is_read_and_not_analysed(
    tmp_path: Path, analysed: list[Path], balanced: dict[str, Any]
) -> None:
    (tmp_path / "final_summary.json").write_text(json.dumps(balanced), "utf-8")
    (tmp_path / "final_summary.txt").write_text("kept", "utf-8")
    assert read_or_make(tmp_path)["verdict"]["kind"] == "BALANCED"
    assert (tmp_path / "final_summary.txt").read_text("utf-8") == "kept"
    assert analysed == []


def test_a_missing_text_is_made_from_the_summary(
    tmp_path: Path, analysed: list[Path], balanced: dict[str, Any]
) -> None:
    (tmp_path / "final_summary.json").write_text(json.dumps(balanced), "utf-8")
    read_or_make(tmp_path)
    assert "BALANCED" in (tmp_path / "final_summary.txt").read_text("utf-8")
    assert analysed == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema_version": "0.1", "run": 3}'])
def test_a_damaged_summary_in_a_folder_is_made_again(
    tmp_path: Path, analysed: list[Path], content: str
) -> None:
    (tmp_path / "final_summary.json").write_text(content, "utf-8")
    assert read_or_make(tmp_path)["verdict"]["kind"] == "INPUT_BOUND"
    assert analysed == [tmp_path]
    assert read_summary(tmp_path / "final_summary.json")


def test_a_run_that_still_runs_is_summarised_and_nothing_is_written(
    tmp_path: Path,
    analysed: list[Path],
    input_bound: dict[str, Any],
    new_manifest: NewManifest,
) -> None:
    new_manifest(tmp_path, status="running")
    input_bound["run"]["status"] = "running"
    assert read_or_make(tmp_path)["run"]["status"] == "running"
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_run_taken_for_lost_is_looked_at_again(
    tmp_path: Path,
    analysed: list[Path],
    input_bound: dict[str, Any],
    new_manifest: NewManifest,
) -> None:
    new_manifest(tmp_path, status="running")
    input_bound["run"]["status"] = "lost"
    read_or_make(tmp_path)
    assert (tmp_path / "final_summary.json").exists()
    read_or_make(tmp_path)
    assert analysed == [tmp_path, tmp_path]


@pytest.mark.parametrize(("written_later_s", "times"), [(-5, 0), (5, 1)])
def test_a_summary_older_than_a_rank_file_is_made_again(
    tmp_path: Path,
    analysed: list[Path],
    balanced: dict[str, Any],
    new_manifest: NewManifest,
    written_later_s: int,
    times: int,
) -> None:
    new_manifest(tmp_path)
    for name in ("final_summary.json", "final_summary.txt"):
        (tmp_path / name).write_text(json.dumps(balanced), "utf-8")
    (tmp_path / "ranks").mkdir()
    rank = tmp_path / "ranks" / "rank-00000.sqlite"
    rank.touch()
    at = (tmp_path / "final_summary.json").stat().st_mtime + written_later_s
    os.utime(rank, (at, at))
    read_or_make(tmp_path)
    assert len(analysed) == times


def test_a_run_whose_rank_files_are_gone_counts_nothing_instead_of_zero(
    tmp_path: Path, new_manifest: NewManifest
) -> None:
    new_manifest(tmp_path)
    summary = read_or_make(tmp_path)
    validate(summary)
    assert summary["verdict"]["kind"] == "INCOMPLETE_DATA"
    assert summary["counts"]["steps"] is summary["counts"]["dropped_rows"] is None
    text = (tmp_path / "final_summary.txt").read_text("utf-8")
    assert "No rank left a record." in text
    assert "0 steps" not in text
    assert "0 s" not in text


def test_a_summary_of_an_older_version_is_read_by_its_own_schema(
    tmp_path: Path, older: Summary
) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(older), "utf-8")
    summary = read_or_make(path)
    assert summary["schema_version"] == "0.1"
    assert "INPUT_BOUND" in render_text(summary)


def test_a_summary_of_an_older_version_is_made_anew_where_its_run_is(
    tmp_path: Path, older: Summary, new_manifest: NewManifest, analysed: list[Path]
) -> None:
    new_manifest(tmp_path)
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "rank-00000.sqlite").touch()
    for name in ("final_summary.json", "final_summary.txt"):
        (tmp_path / name).write_text(json.dumps(older), "utf-8")
    read_or_make(tmp_path)
    assert analysed == [tmp_path]


def test_a_summary_is_kept_where_the_history_of_its_run_was_not(
    tmp_path: Path, older: Summary, new_manifest: NewManifest, analysed: list[Path]
) -> None:
    new_manifest(tmp_path)
    for name in ("final_summary.json", "final_summary.txt"):
        (tmp_path / name).write_text(json.dumps(older), "utf-8")
    assert read_or_make(tmp_path) == older
    assert analysed == []


def test_a_summary_from_the_future_is_refused_and_kept(
    tmp_path: Path, analysed: list[Path]
) -> None:
    path = tmp_path / "final_summary.json"
    path.write_text('{"schema_version": "0.99"}', "utf-8")
    with pytest.raises(NewerSchemaError, match=re.escape(str(path))):
        read_or_make(tmp_path)
    assert analysed == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"{}",
        b"[" * 200_000,
        b'{"schema_version": "abc", "run": {"status": "completed"}, "verdict": {"kind": "X"}}',
        b'{"schema_version": "0.1", "run": {"status": "completed"}, "verdict": {"kind": "X"}}',
    ],
)
def test_a_file_that_is_no_summary_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(RunReadError, match=re.escape(str(path))):
        read_summary(path)


def test_a_run_that_was_killed_before_its_first_step_has_a_report(
    tmp_path: Path, new_manifest: NewManifest
) -> None:
    new_manifest(tmp_path, status="running", world_size=2)
    os.utime(tmp_path / "manifest.json", (1, 1))
    page = io.StringIO()
    summary = finish_run(tmp_path, print_report=True, stream=page)
    validate(summary)
    assert read_summary(tmp_path / "final_summary.json") == summary
    assert "Training stopped without a word" in page.getvalue()
    assert "No rank left a record." in page.getvalue()
    assert summary["verdict"]["kind"] == "INCOMPLETE_DATA"
    assert summary["counts"]["steps"] is summary["run"]["duration_s"] is None
    assert "traintrace/steps" not in summary.flat()


def test_the_printed_report_says_where_the_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    from traintrace.options import TraceOptions
    from traintrace.ports import PluginIdentity, Ports
    from traintrace.session import Session

    monkeypatch.chdir(tmp_path)
    plugin = PluginIdentity("test", "0.1.0", "none", "0")
    session = Session(TraceOptions(run_dir="runs", name="here"), plugin, Ports())
    session.begin()
    session.finish("completed")
    page = io.StringIO()
    finish_run(open_run(session.folder), print_report=True, stream=page)
    assert page.getvalue().splitlines()[-1].split() == ["in", "runs/here"]
