"""Every exit code of every command: as documented, as `--help` says, and as it is."""

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from tests.labs.guarded import CONTRACT, make_summary
from tests.labs.runs import CPU_STEP
from tests.reporting.test_run import ALONE
from traintrace_reporting import guard_runs
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary

DOCUMENTED: Final = Path(__file__).parents[2] / "docs" / "commands.md"
LIMIT: Final = "--max-step-time-regression-pct 5"
# Command, exit code, its arguments; {names} are files and folders of the fixture `place`.
READING: Final = (
    ("report", 0, "{good}"),
    ("report", 1, "{bad}"),
    ("report", 2, "{good} --width 5"),
    ("list", 0, "{folder}"),
    ("list", 1, "{missing}"),
    ("list", 2, "{folder} {folder}"),
    ("compare", 0, "{good} {slow}"),
    ("compare", 0, "{good} {slow} --max-step-time-regression-pct 1000"),
    ("compare", 1, "{good} {bad}"),
    ("compare", 2, "{good}"),
    ("compare", 3, "{good} {unguarded} " + LIMIT),
    ("compare", 4, "{good} {slow} " + LIMIT),
    ("guard history", 0, "{same} --baseline {baseline}"),
    ("guard history", 1, "{bad} --baseline {baseline}"),
    ("guard history", 1, "{same} --baseline {folder}"),
    ("guard history", 2, "{same}"),
    ("guard history", 3, "{same} --baseline {good}"),
    ("guard history", 4, "{slower} --baseline {baseline}"),
    ("guard calibrate", 0, "{runs}"),
    ("guard calibrate", 1, "{same}"),
    ("guard calibrate", 2, ""),
    ("diff", 0, "{good} {slow}"),
    ("diff", 1, "{good} {bad}"),
    ("diff", 2, "{good} {slow} --tolerance -1"),
    ("doctor", 0, "--light"),
    ("doctor", 2, "--loud"),
)
PAIRS: Final = (
    (0, 1.0, 1.0, "--a a.py --b b.py --max-pairs 4"),
    (2, 1.0, 1.0, "--a a.py"),
    (3, 1.0, 40.0, "--a a.py --b b.py --max-pairs 4"),
    (4, 1.5, 1.0, "--a a.py --b b.py --max-pairs 4"),
)
STARTING: Final = (
    *((0, "ends.py 0"), (1, "ends.py 1"), (2, "ends.py 2"), (3, "ends.py 3"), (4, "ends.py 4")),
    *((2, ""), (2, "--loud ends.py 0")),
)
NOISE: Final = (0.002, -0.004, 0.003, -0.001, 0.004, -0.003, 0.001, -0.002, 0.0, 0.003, -0.002)


def summary(name: str, noise: float = 0.0, slower: float = 1.0, **of_run: Any) -> Summary:
    ms = {phase: value * (1.0 + noise) * slower for phase, value in CPU_STEP.items()}  # type: ignore[operator]
    return Summary(make_summary(name, ms=ms, **{"steps": 60, **of_run}))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths by the names that stand in braces above."""
    root = tmp_path_factory.mktemp("codes")
    made = {
        "good": summary("good", steps=120, contract=CONTRACT),
        "slow": summary("slow", slower=1.5, steps=120, contract=CONTRACT),
        "unguarded": summary("unguarded"),
        "same": summary("same", 0.001),
        "slower": summary("slower", slower=1.5),
    }
    paths = {name: root / f"{name}.json" for name in (*made, "bad", "missing")}
    for name, content in made.items():
        paths[name].write_text(json.dumps(content), "utf-8")
    paths["bad"].write_text("{", "utf-8")
    paths["folder"], paths["baseline"] = root / "folder", root / "baseline"
    paths["folder"].mkdir()
    for number, noise in enumerate(NOISE):
        run = paths["baseline"] / f"base{number}"
        run.mkdir(parents=True)
        content = summary(run.name, noise)
        (run / "final_summary.json").write_text(json.dumps(content), "utf-8")
    runs = " ".join(str(run) for run in sorted(paths["baseline"].iterdir()))
    return {name: str(path) for name, path in paths.items()} | {"runs": runs}


@pytest.mark.parametrize(("command", "code", "words"), READING)
def test_a_command_that_reads_ends_with_its_code(
    place: dict[str, str], command: str, code: int, words: str
) -> None:
    result = CliRunner().invoke(main, [*command.split(), *words.format(**place).split()])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert (result.stderr == "") or code or command.startswith("guard")


@pytest.mark.parametrize(("code", "slower", "amplify", "words"), PAIRS)
def test_pairs_end_with_their_code(
    monkeypatch: pytest.MonkeyPatch, code: int, slower: float, amplify: float, words: str
) -> None:
    started: list[str] = []

    def train(side: Any, run_dir: str, name: str) -> Input:
        started.append(name)
        noise = amplify * NOISE[5 * len(started) % len(NOISE)]
        return Input(
            Path(run_dir) / name, summary(name, noise, slower if side.name == "B" else 1.0)
        )

    monkeypatch.setattr(guard_runs, "train", train)
    result = CliRunner().invoke(main, ["guard", "pairs", *words.split()])
    assert result.exit_code == code, result.output


@pytest.mark.parametrize("error", [guard_runs.RunFailed("A failed"), KeyboardInterrupt()])
def test_pairs_whose_run_fails_or_is_interrupted_end_with_code_1(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def train(*_: object) -> Input:
        raise error

    monkeypatch.setattr(guard_runs, "train", train)
    result = CliRunner().invoke(main, ["guard", "pairs", "--a", "a.py", "--b", "b.py"])
    assert (result.exit_code, result.stdout.strip()) == (1, "")
    assert result.stderr.splitlines()[-1] in ("Error: A failed", "Aborted!")


def test_doctor_ends_with_code_1_where_no_run_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert CliRunner().invoke(main, ["doctor", "--light"]).exit_code == 1


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """A function that runs `traintrace run` or `watch`, and gives the exit code."""
    (tmp_path / "ends.py").write_text("import sys; sys.exit(int(sys.argv[1]))\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(ALONE):
        monkeypatch.delenv(name)
    return lambda *words: CliRunner().invoke(main, words).exit_code


@pytest.mark.parametrize("command", ["run", "watch"])
@pytest.mark.parametrize(("code", "words"), STARTING)
def test_what_was_started_ends_with_its_own_code_and_what_was_not_with_ours(
    start: Callable[..., int], command: str, code: int, words: str
) -> None:
    assert start(command, *words.split()) == code


@pytest.mark.parametrize("command", ["run", "watch"])
def test_a_settings_file_that_cannot_be_used_starts_nothing(
    start: Callable[..., int], tmp_path: Path, command: str
) -> None:
    (tmp_path / "traintrace.yaml").write_text("mode: sumary\n", "utf-8")
    (tmp_path / "marks.py").write_text("open('started', 'w').close()\n", "utf-8")
    assert start(command, "marks.py") == 1
    assert not (tmp_path / "started").exists()


def documented() -> dict[str, dict[int, str]]:
    """Give what the table says of each command, by exit code."""
    table: dict[str, dict[int, str]] = {}
    for line in DOCUMENTED.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`[a-z ]+`", cells[0]) and len(cells) == 6:
            table[cells[0].strip("`")] = {code: cell for code, cell in enumerate(cells[1:]) if cell}
    return table


def commands(group: click.Group = main, before: str = "") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            found |= commands(one, f"{before}{name} ")
        else:
            found[f"{before}{name}"] = one
    return found


def test_every_command_has_its_row_and_every_code_in_it_was_seen() -> None:
    table = documented()
    assert table.keys() == commands().keys()
    seen = {(command, code) for command, code, _ in READING} | {("doctor", 1)}
    seen |= {("guard pairs", code) for code, *_ in PAIRS} | {("guard pairs", 1)}
    seen |= {(name, code) for name in ("run", "watch") for code, _ in STARTING}
    assert seen == {(name, code) for name, row in table.items() for code in row}


@pytest.mark.parametrize("name", commands())
def test_help_names_the_codes_that_are_documented(name: str) -> None:
    told = CliRunner().invoke(main, [*name.split(), "--help"]).stdout
    codes = " ".join(told.partition("Exit codes: ")[2].split())
    row = documented()[name]
    if "own" in row[0]:
        assert codes.startswith(row[0])
        assert "128 + n" in codes
        row = {1: row[1], 2: row[2]}
    else:
        assert {int(code) for code in re.findall(r"(?:^|; | )([0-4]) [A-Za-z]", codes)} >= set(row)
    assert all(f"{code} " in codes for code in row)
