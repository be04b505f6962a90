"""Runs that cannot be held against each other, and files that cannot be written: named, and nothing half-done."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import make_summary
from traintrace import atomic
from traintrace_reporting.cli import main


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture
def several(tmp_path: Path) -> Callable[..., list[Path]]:
    """A function that writes summaries of like runs, the last one changed, and gives their paths."""

    def write(count: int, **of_last: Any) -> list[Path]:
        places = []
        for number in range(count):
            changes = of_last if number == count - 1 else {}
            made = make_summary(f"run{number}", jitter=0.02 + 0.001 * number, **{"steps": 60, **changes})  # fmt: skip
            places.append(tmp_path / f"run{number}.json")
            places[-1].write_text(json.dumps(made), "utf-8")
        return places

    return write


ON_DEVICE = {"device_ms": {"forward": 4.0, "backward": 6.0, "optimizer": 1.0}}


@pytest.mark.parametrize(
    ("of_last", "field"),
    [({"steps": 0}, "step_time.window.steps"), ({"cpu": "Xeon"}, "environment.cpu"), (ON_DEVICE, "")],
)  # fmt: skip
def test_calibrate_names_the_run_that_is_unlike_the_others(
    several: Callable[..., list[Path]], tmp_path: Path, of_last: dict[str, Any], field: str
) -> None:
    places = several(7, **of_last)
    result = run("guard", "calibrate", *places, "--output", tmp_path / "noise.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {places[-1]}: {field}")
    assert not (tmp_path / "noise.json").exists()


@pytest.mark.parametrize(("of_last", "told"), [({"steps": 0}, "no step"), (ON_DEVICE, "clock")])
def test_without_steps_or_over_two_clocks_nothing_is_decided_and_it_is_said_why(
    several: Callable[..., list[Path]], of_last: dict[str, Any], told: str
) -> None:
    *like, other = several(11, **of_last)
    baseline = [word for one in like for word in ("--baseline", one)]
    judged = run("guard", "history", other, *baseline, "--json")
    assert judged.exit_code == 3
    content = json.loads(judged.stdout)
    assert len(content["left_out"]) == 10
    assert all(told in reason for reason in content["left_out"])
    compared = json.loads(run("compare", like[0], other, "--json").stdout)
    assert compared["verdict"] == "INCOMPARABLE"
    assert told in compared["headline"]
    differing = json.loads(run("diff", like[0], other, "--json").stdout)
    assert differing["time"]["verdict"] == "INCOMPARABLE"


def small_disk(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run a command that can write a hundred bytes of any file."""
    return subprocess.run(
        [sys.executable, "-m", "traintrace_reporting", *map(str, words)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["compare", "calibrate"])
def test_a_disk_that_fills_up_in_the_middle_leaves_what_was_there(
    several: Callable[..., list[Path]], tmp_path: Path, command: str
) -> None:
    runs, out = several(6), tmp_path / "out"
    out.mkdir()
    old = [out / "kept.json", out / "kept.txt"]
    for file in old:
        file.write_text("as it was", "utf-8")
    words = {
        "compare": ("compare", *runs[:2], "--output", out / "kept"),
        "calibrate": ("guard", "calibrate", *runs, "--output", old[0]),
    }[command]
    done = small_disk(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {old[0]}: File too large\n"
    assert sorted(out.iterdir()) == old
    assert {file.read_text("utf-8") for file in old} == {"as it was"}


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/sys").is_dir(), reason="root may write anywhere"
)
def test_a_folder_that_cannot_be_written_is_named(
    several: Callable[..., list[Path]], tmp_path: Path
) -> None:
    closed = Path("/sys")
    if os.geteuid():
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
    runs = several(6)
    for words, file in (
        (("compare", *runs[:2], "--output", closed / "cmp"), "cmp.json"),
        (("guard", "calibrate", *runs, "--output", closed / "noise.json"), "noise.json"),
    ):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {closed / file}: ")
        assert not list(closed.glob("*cmp*"))


def test_of_two_files_that_belong_together_none_changes_where_one_cannot_be_written(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "missing" / "second"
    first.write_text("as it was", "utf-8")
    with pytest.raises(OSError, match="No such file") as caught:
        atomic.write_texts({first: "new", second: "new"})
    assert caught.value.filename == str(second)
    assert first.read_text("utf-8") == "as it was"
    assert list(tmp_path.iterdir()) == [first]
    second.parent.mkdir()
    atomic.write_texts({first: "new", second: "new"})
    assert {file.read_text("utf-8") for file in (first, second)} == {"new"}
