"""A script under `traintrace run` does what it does without: same losses, same code, and a verdict beside it."""

from pathlib import Path

import pytest

from tests.launch.lab import PYTHON, REPORT, RUN, SCRIPTS, Ended, launch, two_at_a_time
from traintrace.runs.manifest import Manifest

WAYS = {"plain": "plain_torch", "lightning": "lightning", "huggingface": "huggingface"}
LONG = pytest.mark.long
SCRIPT = str(SCRIPTS / "three_trainings.py")


def _both(folder: Path, *arguments: str) -> tuple[Ended, Ended]:
    """Run the script with us and without, side by side."""
    jobs = {"with": RUN, "without": PYTHON}
    ended = two_at_a_time(
        lambda name: launch(folder / name, (*jobs[name], SCRIPT, *arguments)), jobs
    )
    return ended[0], ended[1]


@pytest.mark.parametrize(
    "way",
    ["plain", pytest.param("lightning", marks=LONG), pytest.param("huggingface", marks=LONG)],
)
def test_losses_and_exit_code_are_the_same(tmp_path: Path, way: str) -> None:
    traced, plain = _both(tmp_path, way, "exit")
    assert (traced.code, plain.code) == (5, 5), traced.error[-3_000:]
    # The framework's own lines tell times.
    assert traced.output.splitlines()[-1] == plain.output.splitlines()[-1]
    assert traced.output.splitlines()[-1].startswith("loss ")
    assert "traintrace failed" not in traced.error
    assert REPORT in traced.error
    assert plain.runs == []
    assert traced.steps() == {(0, 0): 12}
    assert Manifest.read(traced.run).plugin == WAYS[way]


@pytest.mark.parametrize(
    "way",
    ["plain", pytest.param("lightning", marks=LONG), pytest.param("huggingface", marks=LONG)],
)
def test_what_a_script_raises_is_seen_and_goes_on(tmp_path: Path, way: str) -> None:
    traced, plain = _both(tmp_path, way, "fail")
    assert (traced.code, plain.code) == (1, 1)
    assert "ArithmeticError: the loss is not finite" in traced.error
    assert Manifest.read(traced.run).status == "failed"
    assert traced.steps() == {(0, 0): 5}
