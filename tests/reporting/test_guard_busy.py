"""A guard that cannot decide says whether training had the CPUs to itself."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP, START_NS, STARTUP_NS
from traintrace.readings import ProcessReading
from traintrace_reporting import guard_runs
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary

NOISE = (0.05, -0.12, 0.1, -0.03, 0.12, -0.1, 0.03, -0.06, 0.0, 0.09, -0.09, 0.03)

WAITED = (0.5, 0.8, 0.9, 0.6, 0.7, 0.75, 0.55, 0.85)


def pairs(
    monkeypatch: pytest.MonkeyPatch,
    waited: float | None,
    amplify: float = 1.0,
    *,
    hidden: bool = False,
    slower: float = 1.0,
) -> Result:
    """Let four pairs of runs decide that each waited for a CPU for such a share of the time.

    If `hidden`, each waits for another share, which makes its steps longer; B's backward is `slower`.
    """
    started: list[str] = []

    def train(side: Any, run_dir: str, name: str) -> Input:
        started.append(name)
        stretch = 1.0 + amplify * NOISE[5 * len(started) % len(NOISE)]
        share = waited
        if hidden:
            share = WAITED[len(started) - 1]
            stretch = (1.0 + 0.01 * NOISE[len(started)]) / (1.0 - share)
        first_ns = START_NS + STARTUP_NS
        readings = [
            ProcessReading(
                at_ns=first_ns + at * 100_000_000,
                interval_ns=100_000_000,
                run_queue_ns=None if share is None else round(share * 100_000_000),
            )
            for at in range(1, 5)
        ]
        ms = {phase: spent * stretch for phase, spent in CPU_STEP.items()}  # type: ignore[operator]
        ms["backward"] *= slower if side.name == "B" else 1.0
        return Input(Path(name), Summary(make_summary(name, ms=ms, steps=60, process=readings)))

    monkeypatch.setattr(guard_runs, "train", train)
    words = ("guard", "pairs", "--a", "a.py", "--b", "b.py", "--max-pairs", "4")
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(("waited", "told"), [(0.4, True), (0.02, False), (None, False)])
def test_an_open_answer_tells_of_a_busy_machine_only_where_training_waited(
    monkeypatch: pytest.MonkeyPatch, waited: float | None, told: bool
) -> None:
    result = pairs(monkeypatch, waited)
    assert result.exit_code == 3, result.output
    assert ("training waited for a CPU 40 % of the time" in result.stderr) is told
    assert ("a hint, no decision" in result.stderr) is told


def test_a_decision_needs_no_such_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    result = pairs(monkeypatch, 0.4, amplify=0.01)
    assert result.exit_code == 0, result.output
    assert "waited for a CPU" not in result.stderr


def test_a_slowdown_that_a_busy_machine_hides_fails_and_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = pairs(monkeypatch, None, hidden=True, slower=1.4)
    assert result.exit_code == 4, result.output
    assert "apart from waiting for a CPU" in result.stdout
    assert "Most of it is in backward." in result.stdout


def test_the_same_code_on_a_busy_machine_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    result = pairs(monkeypatch, None, hidden=True)
    assert result.exit_code == 3, result.output
