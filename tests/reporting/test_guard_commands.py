"""`traintrace guard`: pairs, history and calibration, with trainings whose step times are made up."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP
from traintrace_reporting import guard_runs
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary
from traintrace_reporting.noise_file import read_noise

# What runs of the same code differ by: 0.3 %, without a trend.
NOISE = (0.002, -0.004, 0.003, -0.001, 0.004, -0.003, 0.001, -0.002, 0.0, 0.003, -0.003, 0.001)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["guard", *map(str, arguments)])


def summary(name: str, noise: float = 0.0, backward: float = 1.0, **changes: Any) -> Summary:
    ms = {phase: value * (1.0 + noise) for phase, value in CPU_STEP.items()}  # type: ignore[operator]
    ms["backward"] *= backward
    return Summary(make_summary(name, ms=ms, steps=60, **changes))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A function that replaces training: B's backward takes `slower` times A's; gives who was started."""

    def replace(slower: float = 1.0, amplify: float = 1.0, **of_b: Any) -> list[str]:
        started: list[str] = []

        def train(side: Any, run_dir: str, name: str) -> Input:
            started.append(f"{side.name} {' '.join(side.words)}")
            noise = NOISE[(5 * len(started)) % len(NOISE)] * amplify
            changes = {"backward": slower, **of_b} if side.name == "B" else {}
            return Input(Path(run_dir) / name, summary(name, noise, **changes))

        monkeypatch.setattr(guard_runs, "train", train)
        return started

    return replace


def pairs(*options: object) -> Result:
    return run("pairs", "--a", "train.py --lr '0. 1'", "--b", "traintrace run new.py", *options)


def test_the_same_code_passes_at_the_first_look_in_interleaved_order(
    trained: Callable[..., list[str]], tmp_path: Path
) -> None:
    started = trained()
    result = pairs("--run-dir", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert (content["decision"], content["pairs"], content["reasons"]) == ("PASS", 4, [])
    assert content["smallest_detectable"] >= 0.01
    assert content["error_rate"] <= 0.01
    assert [one[0] for one in started] == list("ABBAABBA")
    assert set(started) == {"A train.py --lr 0. 1", "B new.py"}
    names = content["runs"]["a"] + content["runs"]["b"]
    assert len(set(names)) == 8
    assert "pair 4 of 12" in result.stderr


def test_a_slower_backward_fails_and_is_named(trained: Callable[..., list[str]]) -> None:
    started = trained(slower=1.5)
    result = pairs()
    assert result.exit_code == 4, result.output
    assert result.stdout.startswith("FAIL: B is ")
    assert "backward" in result.stdout
    assert "would fail 8 times in 10" in result.stdout
    assert len(started) == 8


def test_noise_that_hides_the_answer_is_inconclusive_and_says_what_could_be_seen(
    trained: Callable[..., list[str]],
) -> None:
    started = trained(amplify=30.0)
    result = pairs("--max-pairs", 6, "--json")
    assert result.exit_code == 3, result.output
    content = json.loads(result.stdout)
    assert (content["decision"], content["pairs"]) == ("INCONCLUSIVE", 6)
    assert content["smallest_detectable"] > 0.05
    assert content["headline"].startswith("The pairs do not decide, after 6 pairs")
    assert "could not have been seen" in content["headline"]
    assert len(started) == 12


def test_runs_that_cannot_be_compared_end_it_at_once(trained: Callable[..., list[str]]) -> None:
    started = trained(ranks=2)
    result = pairs()
    assert result.exit_code == 3, result.output
    assert "not the same work" in result.stdout
    assert "world_size" in result.stderr
    assert "not known" in result.stdout
    assert len(started) == 2


@pytest.mark.parametrize("text", ["", "'open", "python train.py", "traintrace run"])
def test_a_command_that_cannot_be_meant_is_wrong_usage(
    trained: Callable[..., list[str]], text: str
) -> None:
    started = trained()
    result = run("pairs", "--a", text, "--b", "train.py")
    assert result.exit_code == 2
    assert "--a" in result.stderr
    assert started == []


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """A function that stores a run's summary in a folder of its own, and gives the folder."""

    def store(
        name: str, *arguments: Any, under: str = "main", at: float = 0.0, **changes: Any
    ) -> Path:
        folder = tmp_path / under / name
        folder.mkdir(parents=True)
        content = summary(name, *arguments, **changes)
        content["run"]["started_at"] += at
        (folder / "final_summary.json").write_text(json.dumps(content), "utf-8")
        return folder

    return store


def test_history_judges_new_runs_by_those_of_a_folder(stored: Callable[..., Path]) -> None:
    for number, noise in enumerate(NOISE[:11]):
        stored(f"base{number}", noise)
    folder = stored("other-machine", cpu="Xeon").parent
    same = run("history", stored("same", 0.001, under="new"), "--baseline", folder, "--json")
    assert same.exit_code == 0, same.output
    content = json.loads(same.stdout)
    assert (content["decision"], content["baseline_runs"]) == ("PASS", 11)
    assert content["left_out"] == ["other-machine: another processor than same."]
    assert content["smallest_detectable"] > 0.0
    slow = run("history", stored("slow", 0.0, 1.5, under="new"), "--baseline", folder)
    assert slow.exit_code == 4, slow.output
    assert slow.stdout.startswith("FAIL: Slower than the baseline by")
    # A run that lies in the baseline's folder is not judged by itself.
    own = run("history", folder / "base0", "--baseline", folder, "--json")
    assert json.loads(own.stdout)["baseline_runs"] == 10


def test_history_of_nine_runs_decides_nothing(stored: Callable[..., Path], tmp_path: Path) -> None:
    for number, noise in enumerate(NOISE[:9]):
        folder = stored(f"base{number}", noise).parent
    result = run("history", stored("new", under="new"), "--baseline", folder)
    assert result.exit_code == 3, result.output
    assert "9 comparable runs in the baseline, 10 needed" in result.stdout
    empty = run("history", tmp_path / "new" / "new", "--baseline", tmp_path)
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert str(tmp_path) in empty.stderr


def test_history_fails_nothing_by_a_baseline_that_gets_slower_itself(
    stored: Callable[..., Path],
) -> None:
    for number in range(12):
        folder = stored(f"base{number}", 0.006 * number + NOISE[number], at=float(number)).parent
    new = stored("new", 0.15, under="new", at=30.0)
    result = run("history", new, "--baseline", folder)
    assert result.exit_code == 3, result.output
    assert "the baseline itself is not at rest" in result.stdout
    slow = run("history", stored("slow", 3.0, under="new", at=0.0), "--baseline", folder)
    assert slow.exit_code == 4, slow.output  # more than such a drift can do


def test_calibrate_writes_a_model_that_reads_back_and_is_strict(
    stored: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [stored(f"same{number}", noise) for number, noise in enumerate(NOISE[:6])]
    file = tmp_path / "out" / "noise.json"
    result = run("calibrate", *runs, "--output", file)
    assert result.exit_code == 0, result.output
    model = read_noise(file)
    assert model.runs == 6
    logs = [math.log1p(noise) for noise in NOISE[:6]]
    mean = sum(logs) / 6
    spread = math.sqrt(sum((one - mean) ** 2 for one in logs) / 5)
    assert model.run_sd_log == pytest.approx(spread, rel=0.2)
    content = json.loads(file.read_text("utf-8"))
    assert json.loads(run("calibrate", *runs).stdout) == content
    for change, named in (
        ({"run_sd_log": -1.0}, "run_sd_log"),
        ({"extra": 1}, "extra"),
        ({"trending": "no"}, "trending"),
        ({"schema_version": 2}, "newer"),
        ({"kind": "x"}, "kind"),
    ):
        bad = tmp_path / "bad.json"
        bad.write_text(json.dumps(content | change), "utf-8")
        with pytest.raises(Exception, match=named) as caught:
            read_noise(bad)
        assert str(bad) in str(caught.value)


def test_compare_rests_on_the_calibrated_noise_instead_of_an_assumed_one(
    stored: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [stored(f"same{number}", noise) for number, noise in enumerate(NOISE[:6])]
    file, a, b = tmp_path / "noise.json", stored("a"), stored("b", 0.001)
    assert run("calibrate", *runs, "--output", file).exit_code == 0
    bases = []
    for more in ([], ["--noise", str(file)]):
        words = ["compare", str(a), str(b), "--json", *more]
        content = json.loads(CliRunner().invoke(main, words).stdout)
        bases.append(content["error_basis"])
    assert bases == ["assumed", "noise_model"]
    missing = ["compare", str(a), str(b), "--noise", str(tmp_path / "none.json")]
    result = CliRunner().invoke(main, missing)
    assert (result.exit_code, "none.json" in result.stderr) == (1, True)


def test_calibrate_refuses_what_is_no_measure_and_writes_nothing(
    stored: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [stored(f"same{number}", noise) for number, noise in enumerate(NOISE[:5])]
    file = tmp_path / "noise.json"
    few = run("calibrate", *runs, "--output", file)
    twice = run("calibrate", *runs, runs[0], "--output", file)
    other = run("calibrate", *runs, stored("other", cpu="Xeon"), "--output", file)
    assert [one.exit_code for one in (few, twice, other)] == [1, 1, 1]
    assert "6 needed" in few.stderr
    assert "given twice" in twice.stderr
    assert "environment.cpu" in other.stderr
    assert not file.exists()


@pytest.mark.parametrize("command", [[], ["pairs"], ["history"], ["calibrate"]])
def test_every_help_has_an_example_and_the_exit_codes(command: list[str]) -> None:
    told = run(*command, "--help").stdout
    assert "Example: traintrace guard" in told
    assert "Exit codes: " in told
