"""A run recorded in this process, and copies of it as they lie on a disk after something died."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from traintrace import accounts as A
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.session import Session

FLUSHES, STEPS_A_FLUSH = 30, 20


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run.

    Attributes:
        killed: A copy of its folder as SIGKILL leaves it: the log is not folded in.
        closed: Its folder after it ended.
        commits: Bytes of the log after each flush, and the steps that were completed by then.
    """

    killed: Path
    closed: Path
    commits: list[tuple[int, int]]

    def copy(self, folder: Path, original: Path) -> Path:
        """Copy one of the two to a new folder without what only a living process needs."""
        place = folder / f"{original.name}-{len(list(folder.iterdir()))}"
        shutil.copytree(original, place, ignore=shutil.ignore_patterns("*-shm"))
        return place


def file_of(run: Path) -> Path:
    """Give the file of rank 0."""
    return run / "ranks" / "rank-00000.sqlite"


def log_of(run: Path) -> Path:
    """Give the write-ahead log of rank 0."""
    return run / "ranks" / "rank-00000.sqlite-wal"


def record(session: Session, steps: int) -> None:
    """Complete some steps."""
    for _ in range(steps):
        for account in (A.INPUT_WAIT, A.FORWARD, A.OPTIMIZER):
            session.journal.write(account)
            session.journal.write(~account)
        session.capture.log("loss", 1.0 / (session.steps + 1))
        session.capture.complete()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record a run once, flush by flush."""
    folder = tmp_path_factory.mktemp("recorded")
    plugin = PluginIdentity("test", "0.1.0", "none", "0")
    session = Session(TraceOptions(run_dir=folder, name="run"), plugin, Ports())
    session.begin()
    commits = []
    for _ in range(FLUSHES):
        record(session, STEPS_A_FLUSH)
        session.flush()
        commits.append((log_of(session.folder).stat().st_size, session.steps))
    killed = Path(shutil.copytree(session.folder, folder / "killed"))
    session.finish("completed")
    return Recorded(killed, session.folder, commits)


@pytest.fixture
def copy_of(recorded: Recorded, tmp_path: Path) -> Callable[[Path], Path]:
    """Copy a folder of the recorded run to one that the test may damage."""
    return lambda original: recorded.copy(tmp_path, original)
