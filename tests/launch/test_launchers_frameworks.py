"""Lightning and the Hugging Face Trainer under `traintrace run` and torchrun: as the plain loop.

Under torchrun alone, and with Lightning's own launcher, the ordinary tests of the plugins run them too.
"""

from pathlib import Path

import pytest

from tests.launch.lab import PLAIN, PYTHON, RUN, RUN_2, SCRIPTS, TORCHRUN_2, check_job, launch
from traintrace.runs.manifest import Manifest

LIGHTNING = str(SCRIPTS / "lightning_training.py")
HUGGINGFACE = str(SCRIPTS / "huggingface_training.py")
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("launcher", "script", "world"),
    [
        pytest.param(RUN, (LIGHTNING, "--automatic"), 1, id="run-lightning"),
        pytest.param(RUN, (HUGGINGFACE, "--automatic"), 1, id="run-huggingface"),
        pytest.param(RUN_2, (LIGHTNING, "--automatic", "--devices", 2), 2, id="run2-lightning"),
        pytest.param(RUN_2, (HUGGINGFACE, "--automatic"), 2, id="run2-huggingface"),
        pytest.param(TORCHRUN_2, (HUGGINGFACE,), 2, id="torchrun-huggingface"),
        pytest.param(*(TORCHRUN_2, (LIGHTNING, "--devices", 2), 2), id="torchrun-lightning"),
        # A callback that the script adds is the only one.
        pytest.param(RUN, (LIGHTNING,), 1, id="run-own-lightning", marks=LONG),
        pytest.param(RUN, (HUGGINGFACE,), 1, id="run-own-huggingface", marks=LONG),
        pytest.param(RUN_2, (LIGHTNING, "--devices", 2), 2, id="run2-own-lightning", marks=LONG),
        pytest.param(RUN_2, (HUGGINGFACE,), 2, id="run2-own-huggingface", marks=LONG),
        # Lightning starts the second process itself.
        pytest.param(*(PYTHON, (LIGHTNING, "--devices", 2), 2), id="lightning-itself", marks=LONG),
        pytest.param(
            *(RUN, (LIGHTNING, "--automatic", "--devices", 2), 2),
            id="run-lightning-itself",
            marks=LONG,
        ),
    ],
)
def test_framework(
    tmp_path: Path, launcher: tuple[str, ...], script: tuple[object, ...], world: int
) -> None:
    job = launch(tmp_path, (*launcher, *script, "--steps", 6))
    check_job(job, world=world, steps=6)
    plugin = "lightning" if script[0] == LIGHTNING else "huggingface"
    assert Manifest.read(job.run).plugin == plugin


@LONG
@pytest.mark.parametrize("script", [LIGHTNING, HUGGINGFACE], ids=["lightning", "huggingface"])
def test_exit_code_of_a_framework(tmp_path: Path, script: str) -> None:
    """torchrun turns every failure into 1, and a single process keeps its own."""
    one = launch(tmp_path / "one", (*RUN, script, "--automatic", "--exit", 7))
    assert (one.code, Manifest.read(one.run).exit_code) == (7, 7)
    devices = ("--devices", 2) if script == LIGHTNING else ()
    two = launch(tmp_path / "two", (*RUN_2, script, "--automatic", "--exit", 7, *devices))
    assert two.code == 1
    for job in (one, two):
        assert set(job.steps().values()) == {6}


@LONG
@pytest.mark.parametrize(
    ("script", "first"),
    [
        (PLAIN, "from traintrace_plain_torch import trace"),
        (LIGHTNING, "from traintrace_lightning import TraceCallback"),
        (HUGGINGFACE, "from traintrace_huggingface import TraceCallback"),
    ],
    ids=["plain", "lightning", "huggingface"],
)
def test_ours_may_be_the_first_import_of_a_script(tmp_path: Path, script: str, first: str) -> None:
    """Then our import loads the framework, and its plugin attaches in the middle of that."""
    own = tmp_path / "train.py"
    own.write_text(f"{first}\n{Path(script).read_text('utf-8')}", "utf-8")
    check_job(launch(tmp_path, (*RUN, own)), world=1, steps=6)
