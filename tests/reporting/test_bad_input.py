"""What commands make of bad input: file and field are named, the code is 1, and nothing is half-written."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import make_summary
from tests.labs.older import as_version_0_1
from traintrace.runs.manifest import Manifest
from traintrace_reporting.cli import main
from traintrace_reporting.settings import FILE_NAME

Summary = dict[str, Any]
THRESHOLD = ("--max-step-time-regression-pct", "5")
DOORS = {
    "report": ("report", "{bad}"),
    "compare": ("compare", "{good}", "{bad}", "--output", "{out}"),
    "compare with a threshold": ("compare", "{bad}", "{good}", *THRESHOLD),
    "trend": ("compare", "{good}", "{bad}", "{good}", "--output", "{out}"),
    "diff": ("diff", "{good}", "{bad}"),
    "history, new": ("guard", "history", "{bad}", "--baseline", "{good}"),
    "history, baseline": ("guard", "history", "{good}", "--baseline", "{bad}"),
    "calibrate": ("guard", "calibrate", "{good}", "{bad}", "--output", "{out}"),
}
READS_NUMBERS = [door for door in DOORS if door != "report"]


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture(scope="module")
def summary() -> Summary:
    return make_summary("good", steps=60)


def _set(*place: str, value: object) -> Callable[[Summary], str]:
    def change(summary: Summary) -> str:
        inner: Any = summary
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        return json.dumps(summary)

    return change


_STEP = ("step_time", "metrics", "step_time")
BAD: dict[str, tuple[Callable[[Summary], str], str]] = {
    "empty": (lambda _: "", "cannot be read as JSON"),
    "truncated": (lambda s: json.dumps(s)[:-300], "cannot be read as JSON"),
    "not a number": (
        _set(*_STEP, "mean", value=float("nan")),
        "step_time.metrics.step_time.mean: not a finite number",
    ),
    "infinite": (
        _set("run", "duration_s", value=float("inf")),
        "run.duration_s: not a finite number",
    ),
    "twice the same key": (
        lambda s: json.dumps(s)[:-1] + ', "run": {}}',
        "the key 'run' stands twice",
    ),
    "edited by hand": (_set("run", "status", value="splendid"), "at run/status"),
    "a field of another type": (_set("counts", "steps", value="many"), "at counts/steps"),
    "a key too many": (_set("run", "mood", value="good"), "at run: "),
    "newer": (_set("schema_version", value="0.9"), "newer than this traintrace reads"),
    "foreign": (lambda _: '{"name": "react", "version": "1.0"}', "schema_version is None"),
    "a list": (lambda _: "[1, 2]", "not a traintrace summary"),
}
BAD_NUMBERS = {
    "control characters in the name": (_set("run", "name", value="evil\x1b[31m"), "run.name"),
    "a mean that its steps cannot have": (_set(*_STEP, "mean", value=1e9), ".mean"),
}


def refused(
    folder: Path, door: str, summary: Summary, change: Callable[[Summary], str], field: str
) -> None:
    good, bad = folder / "good.json", folder / "bad.json"
    good.write_text(json.dumps(summary), "utf-8")
    other = copy.deepcopy(summary)
    other["run"]["id"] = "another"  # else it would be passed over as the same run
    bad.write_text(change(other), "utf-8")
    before = sorted(folder.rglob("*"))
    result = run(*(word.format(good=good, bad=bad, out=folder / "new" / "x") for word in DOORS[door]))  # fmt: skip
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert str(bad) in result.stderr
    assert field in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_summary_is_refused_at_every_door(
    tmp_path: Path, summary: Summary, door: str, kind: str
) -> None:
    refused(tmp_path, door, summary, *BAD[kind])


@pytest.mark.parametrize("door", READS_NUMBERS)
@pytest.mark.parametrize("kind", BAD_NUMBERS)
def test_a_summary_that_contradicts_itself_is_refused_where_its_numbers_are_compared(
    tmp_path: Path, summary: Summary, door: str, kind: str
) -> None:
    refused(tmp_path, door, summary, *BAD_NUMBERS[kind])


def test_a_name_with_control_characters_is_shown_without_them(
    tmp_path: Path, summary: Summary
) -> None:
    path = tmp_path / "evil.json"
    path.write_text(_set("run", "name", value="evil\x1b[31m")(copy.deepcopy(summary)), "utf-8")
    result = run("report", path)
    assert (result.exit_code, "\x1b" in result.stdout) == (0, False)
    assert "evil\\x1b[31m" in result.stdout


@pytest.mark.parametrize("door", ["report", "compare", "trend", "diff"])
def test_an_older_summary_is_read_at_every_door(
    tmp_path: Path, summary: Summary, door: str
) -> None:
    good, old = tmp_path / "good.json", tmp_path / "old.json"
    good.write_text(json.dumps(summary), "utf-8")
    other = as_version_0_1(summary)
    other["run"]["id"] = "another"
    old.write_text(json.dumps(other), "utf-8")
    words = (word.format(good=good, bad=old, out=tmp_path / "x") for word in DOORS[door])
    assert run(*words).exit_code == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read"),
        ('{"name": "x"', "cannot be read"),
        ("[1]", "not a manifest"),
        ('{"schema_version": 99}', "schema 99, this traintrace reads up to"),
    ],
)
def test_a_run_folder_whose_manifest_is_bad_is_refused(
    tmp_path: Path, summary: Summary, new_manifest: Callable[..., Manifest], text: str, told: str
) -> None:
    new_manifest(tmp_path / "run", name="run")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(text, "utf-8")
    good = tmp_path / "good.json"
    good.write_text(json.dumps(summary), "utf-8")
    for words in (("report", tmp_path / "run"), ("compare", good, tmp_path / "run")):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(manifest) in result.stderr
        assert told in result.stderr


NOISE = {
    "kind": "traintrace noise model", "schema_version": 1, "run_sd_log": 0.01, "runs": 6,
    "fingerprint": "abc", "metric_sd_share": {"forward": 0.01}, "trend_log": 0.0, "trending": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read as JSON"),
        (json.dumps(NOISE)[:-20], "cannot be read as JSON"),
        (json.dumps(NOISE | {"run_sd_log": float("nan")}), "run_sd_log: not a finite number"),
        (json.dumps(NOISE | {"runs": "six"}), "runs"),
        (json.dumps(NOISE | {"metric_sd_share": {"forward": -1.0}}), "forward"),
        (json.dumps(NOISE | {"more": 1}), "more"),
        (json.dumps(NOISE)[:-1] + ', "runs": 7}', "the key 'runs' stands twice"),
        (json.dumps(NOISE | {"schema_version": 2}), "newer than this traintrace reads"),
        ('{"name": "react"}', "kind: not a noise model"),
    ],
)
def test_a_bad_noise_model_is_refused(
    tmp_path: Path, summary: Summary, text: str, told: str
) -> None:
    for name in ("a", "b"):
        other = copy.deepcopy(summary)
        other["run"]["id"] = name
        (tmp_path / f"{name}.json").write_text(json.dumps(other), "utf-8")
    file = tmp_path / "noise.json"
    file.write_text(text, "utf-8")
    result = run("compare", tmp_path / "a.json", tmp_path / "b.json", "--noise", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(file) in result.stderr
    assert told in result.stderr


def test_a_key_that_stands_twice_in_the_declaration_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("open('started', 'w').close()\n", "utf-8")
    (tmp_path / FILE_NAME).write_text(
        "guard:\n  schema_version: 1\n  workload:\n    name: one\n    name: other\n"
        "  measurement: {start_step: 1, completed_steps: 2}\n",
        "utf-8",
    )
    result = run("run", "train.py")
    assert (result.exit_code, result.stdout) == (1, "")
    for named in (FILE_NAME, "line 5", "name"):
        assert named in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py", FILE_NAME]
    pairs = run("guard", "pairs", "--a", "train.py", "--b", "train.py")
    assert (pairs.exit_code, FILE_NAME in pairs.stderr) == (1, True)
