"""The command: its exit codes, its one-sentence errors, and what it does not import."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.made_runs import write_long_run
from traintrace.runs.manifest import Manifest
from traintrace_reporting.cli import main

Summary = dict[str, Any]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def summary_file(tmp_path: Path, input_bound: Summary) -> Path:
    path = tmp_path / "final_summary.json"
    path.write_text(json.dumps(input_bound), "utf-8")
    return path


@pytest.fixture
def runs(tmp_path: Path, input_bound: Summary, new_manifest: Callable[..., Manifest]) -> Path:
    """A folder with a completed run that has a summary, and a failed one that has none."""
    for started_at, name, status in ((1.0, "digits", "completed"), (2.0, "[red]boo", "failed")):
        new_manifest(tmp_path / f"run-{status}", name=name, status=status, started_at=started_at)
    (tmp_path / "run-completed" / "final_summary.json").write_text(json.dumps(input_bound), "utf-8")
    return tmp_path


def test_report_prints_a_summary_file_on_standard_output(summary_file: Path) -> None:
    result = run("report", summary_file)
    assert result.exit_code == 0
    assert "INPUT_BOUND" in result.stdout
    assert result.stderr == ""


def test_report_prints_a_folder_that_holds_a_summary(summary_file: Path) -> None:
    assert "INPUT_BOUND" in run("report", summary_file.parent).stdout


def test_report_as_json_gives_the_summary_back(summary_file: Path, input_bound: Summary) -> None:
    assert json.loads(run("report", summary_file, "--json").stdout) == input_bound


def test_report_keeps_to_the_width(summary_file: Path) -> None:
    narrow, wide = (
        run("report", summary_file, "--width", "60"),
        run("report", summary_file, "--width", "100"),
    )
    assert max(map(len, narrow.stdout.splitlines())) == 60
    assert max(map(len, wide.stdout.splitlines())) == 100


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": "9.0"}'])
def test_a_bad_summary_file_ends_with_code_1_and_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, "utf-8")
    assert_one_clear_sentence(run("report", path), path)


def test_a_missing_file_ends_with_code_1_and_its_name(tmp_path: Path) -> None:
    assert_one_clear_sentence(run("report", tmp_path / "absent"), tmp_path / "absent")


def test_a_folder_without_a_run_ends_with_code_1_and_its_name(tmp_path: Path) -> None:
    assert_one_clear_sentence(run("report", tmp_path), tmp_path)


def test_listing_a_missing_folder_ends_with_code_1_and_its_name(tmp_path: Path) -> None:
    assert_one_clear_sentence(run("list", tmp_path / "absent"), tmp_path / "absent")


def assert_one_clear_sentence(result: Result, path: Path) -> None:
    assert result.exit_code == 1
    assert result.stdout == ""
    assert str(path) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["report", "x", "--width", "many"], ["report", "x", "--width", "5"], ["dance"]],
)
def test_wrong_usage_ends_with_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "command", [[], ["run"], ["watch"], ["report"], ["list"], ["compare"], ["diff"], ["doctor"]]
)
def test_every_help_has_an_example_and_the_exit_codes(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example: traintrace" in result.stdout
    assert "Exit codes: " in result.stdout


def test_list_shows_each_run_with_its_verdict(runs: Path) -> None:
    lines = run("list", runs).stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["run-completed", "completed"],
        ["run-failed", "failed"],
    ]
    assert lines[1].split()[-3:] == ["900", "10.4", "INPUT_BOUND"]
    assert lines[2].split()[-3:] == ["-", "-", "-"]
    assert max(map(len, lines)) <= 80


def test_list_as_json_has_null_where_nothing_is_known(runs: Path) -> None:
    first, second = json.loads(run("list", runs, "--json").stdout)
    assert (first["name"], first["steps"], first["verdict"]) == ("digits", 900, "INPUT_BOUND")
    assert first["step_time_median_ms"] == 10.41
    assert (second["name"], second["status"]) == ("[red]boo", "failed")
    assert second["steps"] is second["verdict"] is second["step_time_median_ms"] is None


def test_list_survives_a_damaged_summary(runs: Path) -> None:
    (runs / "run-completed" / "final_summary.json").write_text("{", "utf-8")
    result = run("list", runs)
    assert result.exit_code == 0
    assert "INPUT_BOUND" not in result.stdout


def test_list_shows_the_good_runs_beside_a_damaged_one(runs: Path) -> None:
    manifest = runs / "run-failed" / "manifest.json"
    manifest.write_text("{", "utf-8")
    result = run("list", runs)
    assert result.exit_code == 1
    assert str(manifest) in result.stderr
    lines = [line.split()[:2] for line in result.stdout.splitlines()[1:]]
    assert lines == [["run-completed", "completed"], ["run-failed", "unreadable"]]
    records = json.loads(run("list", runs, "--json").stdout)
    assert [record["status"] for record in records] == ["completed", "unreadable"]


def test_list_takes_the_status_from_where_the_report_does(
    runs: Path, new_manifest: Callable[..., Manifest]
) -> None:
    new_manifest(runs / "run-completed", name="digits", status="running")  # and no rank file at all
    os.utime(runs / "run-completed" / "manifest.json", (1, 1))
    first = json.loads(run("list", runs, "--json").stdout)[0]
    assert first["status"] == "lost"
    assert first["verdict"] is None  # the summary says something else


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_ends_with_code_1_and_one_sentence(
    summary_file: Path, options: list[str]
) -> None:
    command = [sys.executable, "-m", "traintrace_reporting", "report", str(summary_file), *options]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "output cannot be written" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_folder_has_no_runs(tmp_path: Path) -> None:
    assert run("list", tmp_path).stdout == f"No runs in {tmp_path}.\n"


def test_version_is_printed() -> None:
    assert run("--version").stdout.startswith("traintrace ")


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "rich", "torch", "jsonschema", "traintrace_analysis", "importlib.metadata"}
    code = f"import sys, traintrace_reporting.cli; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_window_cannot_be_chosen_for_a_summary(summary_file: Path) -> None:
    result = run("report", summary_file, "--window", "5")
    assert result.exit_code == 2
    assert "run's folder" in result.stderr


def test_a_window_is_made_of_the_latest_steps_and_nothing_is_written(tmp_path: Path) -> None:
    folder = write_long_run(tmp_path / "long", 300)
    result = run("report", folder, "--window", "40", "--json")
    assert result.exit_code == 0, result.stderr
    window = json.loads(result.stdout)["step_time"]["window"]
    assert (window["start_step"], window["end_step"], window["steps"]) == (261, 300, 40)
    assert not (folder / "final_summary.json").exists()


def test_report_reads_a_run_by_its_url(tmp_path: Path) -> None:
    folder = write_long_run(tmp_path / "long", 60)
    result = run("report", folder.as_uri(), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["counts"]["steps"] == 60
    absent = (tmp_path / "absent").as_uri()
    missing = run("report", absent)
    assert missing.exit_code == 1
    assert absent in missing.stderr
