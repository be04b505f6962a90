"""`benchmarks.guard_real`: its figures, and two of its decisions about real training."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.guard_real import gates
from benchmarks.guard_real.gates import Gate, figures_of, write_table
from traintrace_reporting import guard_runs
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input, read_input

ROOT = Path(__file__).parents[2]


def gate(code: gates.Code, decision: str, phase: str | None = None, pairs: int = 4) -> Gate:
    return Gate(code, decision, pairs, 1.0, 0.03, phase, 40.0)


def test_a_false_alarm_and_a_slowdown_that_is_not_blamed_on_backward_are_not_good() -> None:
    passed, found = gate("same", "PASS"), gate("slower", "FAIL", "backward", 6)
    assert figures_of([passed, gate("same", "INCONCLUSIVE", pairs=12), found])["good"]
    false = figures_of([passed, gate("same", "FAIL", "forward"), found])
    assert (false["good"], false["same"]["false_fails"]) == (False, 1)
    for other in (gate("slower", "FAIL", "forward"), gate("slower", "FAIL"), gate("slower", "PASS")):  # fmt: skip
        assert not figures_of([passed, found, other])["good"]
    figures = figures_of([passed, found])
    assert figures["slower"]["blamed"] == {"backward": 1}
    assert "Blamed: backward 1." in write_table(figures)
    assert not figures_of([])["good"]


def test_the_commands_are_the_example_and_one_that_is_slower() -> None:
    assert len(set(gates.commands("same"))) == 1
    plain, slower = gates.commands("slower")
    assert (plain, slower.split()[1:3]) == (gates.commands("same")[0], ["--share", "0.1"])
    assert all(Path(command.split()[0]).is_file() for command in (plain, slower))


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], Gate]]:
    """A function that decides by four pairs of real trainings, those of B slower by a share."""
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.labs.digits_server"],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def decide(share: float) -> Gate:
            def train(side: Any, run_dir: str, name: str) -> Input:
                folder = Path(run_dir) / name
                print(folder, share if side.name == "B" else 0.0, sep="\t", file=server.stdin, flush=True)  # fmt: skip
                assert server.stdout is not None
                assert server.stdout.readline() == "0\n"
                return read_input(str(folder / "digits-plain"))

            monkeypatch.setattr(guard_runs, "train", train)
            words = ("--a", "a.py", "--b", "b.py", "--max-pairs", "4", "--json")
            place = tmp_path / f"runs-{len(list(tmp_path.iterdir()))}"
            result = CliRunner().invoke(main, ["guard", "pairs", *words, "--run-dir", str(place)])
            return gates.gate_of("same", gates.decision_in(result.exit_code, result.stdout, result.stderr), 0.0)  # fmt: skip

        yield decide
        server.stdin.close()


def test_two_guards_of_the_same_real_training_do_not_fail(guard: Callable[[float], Gate]) -> None:
    decided = [guard(0.0) for _ in range(2)]
    assert [gate.pairs for gate in decided] == [4, 4]
    assert not [gate for gate in decided if gate.decision == "FAIL"]


@pytest.mark.long
def test_a_backward_that_makes_steps_half_longer_never_passes(
    guard: Callable[[float], Gate],
) -> None:
    found = guard(0.5)
    assert found.decision in ("FAIL", "INCONCLUSIVE")  # a busy machine may hide it
    assert found.phase == ("backward" if found.decision == "FAIL" else None)


@pytest.mark.long
def test_the_benchmark_decides_about_processes_that_the_command_starts() -> None:
    assert gates.decide("same", 4).decision != "FAIL"
    slower = gates.decide("slower", 12)
    assert slower.decision != "PASS"
    assert slower.phase in ("backward", None)
