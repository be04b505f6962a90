"""Trains with every integration, traced and not, each in a process of its own; the tests compare what was seen.

`subject/` is what runs in these processes. Two integrations are under way at a time.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

INTEGRATIONS: Final = (
    *("plain", "accelerate", "fabric"),
    *("lightning.pytorch", "pytorch_lightning", "huggingface"),
)
PACKAGES: Final = (
    *("traintrace", "traintrace_analysis", "traintrace_reporting"),
    *("traintrace_plain_torch", "traintrace_lightning", "traintrace_huggingface"),
)
ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 300


class Run(NamedTuple):
    """One process that trained.

    Attributes:
        folder: `work` below it was its working directory; its output lies beside that.
        seen: What it wrote down, by name of the observation.
        exit_code: How it ended; negative for a signal.
    """

    folder: Path
    seen: dict[str, Any]
    exit_code: int


class Pair(NamedTuple):
    """The same training, untraced and traced."""

    integration: str
    ending: str
    untraced: Run
    traced: Run


class Subjects:
    """The processes of all integrations that the selected tests ask for."""

    def __init__(self, folder: Path, integrations: list[str]) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._runs: dict[str, Future[None]] = {
            name: self._pool.submit(self._train, name) for name in integrations
        }

    def pair(self, integration: str, ending: str) -> Pair:
        """Wait for an integration and give the two processes that ended like that."""
        self._runs[integration].result()
        runs = (self._read(self._folder / integration / v / ending) for v in ("untraced", "traced"))
        return Pair(integration, ending, *runs)

    def _train(self, integration: str) -> None:
        home = self._folder / integration / "home"
        home.mkdir(parents=True)
        keep = ("PATH", "LD_LIBRARY_PATH")
        environment = {
            **{name: os.environ[name] for name in keep if name in os.environ},
            "HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *_package_folders()]),
        }
        folder = str(self._folder / integration)
        command = [sys.executable, "-m", "tests.unchanged.subject", integration, folder]
        with (self._folder / integration / "said").open("w+", encoding="utf-8") as said:
            # In a session of its own, so that loader workers end with it if something hangs.
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=said, stderr=said, start_new_session=True
            )
            try:
                code = process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            said.seek(0)
            assert code == 0, said.read()

    def _read(self, folder: Path) -> Run:
        said = (folder / "stderr").read_text(encoding="utf-8")
        assert (folder / "record").exists(), said
        # Written by our own process a moment ago.
        seen = pickle.loads((folder / "record").read_bytes())
        return Run(folder, seen, int((folder / "exit_code").read_text(encoding="utf-8")))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _package_folders() -> Iterator[str]:
    """Give where this process would import our packages from: a copy of them is tested as such."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        yield str(Path(spec.origin).resolve().parents[1])


@pytest.fixture(scope="session")
def subjects(request: pytest.FixtureRequest) -> Iterator[Subjects]:
    asked = {
        item.callspec.params["integration"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "subjects" in item.fixturenames
    }
    # A short path: sockets of loader workers lie below it, and their names may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="u-", dir="/tmp") as folder:
        running = Subjects(Path(folder), [name for name in INTEGRATIONS if name in asked])
        yield running
        running.close()


# The same plugin as in `lightning.pytorch`, and some 20 s of computing.
LONG: Final = "pytorch_lightning"


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(name, marks=pytest.mark.long) if name == LONG else name
        for name in INTEGRATIONS
    ],
)
def integration(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def completed(subjects: Subjects, integration: str) -> Pair:
    """Give the processes that trained to the end."""
    pair = subjects.pair(integration, "completed")
    for run in (pair.untraced, pair.traced):
        assert "ending" not in run.seen, (run.folder / "stderr").read_text(encoding="utf-8")
    return pair


@pytest.fixture(params=["ValueError", "KeyboardInterrupt"])
def failed(subjects: Subjects, integration: str, request: pytest.FixtureRequest) -> Pair:
    """Give the processes in which the user's code raised."""
    return subjects.pair(integration, request.param)


@pytest.fixture(params=["completed", "ValueError", "KeyboardInterrupt"])
def ended(subjects: Subjects, integration: str, request: pytest.FixtureRequest) -> Pair:
    """Give the processes of every ending in turn."""
    return subjects.pair(integration, request.param)
