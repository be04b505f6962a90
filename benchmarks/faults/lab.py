"""Where one repetition of a fault happens: its folders and processes, and what is true of them afterwards."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.faults.workload import Workload
from traintrace import open_run
from traintrace_reporting.finish import Summary, read_or_make, summarise_run

TOKEN: Final = "TRAINTRACE_FAULTS_TOKEN"
_PATIENCE_S: Final = 60.0
# What a run folder holds; beside a file that its process could not close lies its log.
_OWN_FILES: Final = (
    ".run-id",
    "outcome.json",
    "manifest.json",
    "final_summary.json",
    "final_summary.txt",
)
_LOGS: Final = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step as the training process told it."""

    number: int
    at_ns: int
    loss: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a training process told.

    Attributes:
        reported: Steps that its own report counted; None if it made none.
    """

    steps: Sequence[Step]
    reported: int | None

    @property
    def losses(self) -> list[str]:
        """Give the losses in order."""
        return [step.loss for step in self.steps]


@dataclass(slots=True)
class Lab:
    """One repetition: its folder, its processes."""

    folder: Path
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @classmethod
    def make(cls) -> "Lab":
        """Make one in a temporary folder."""
        lab = cls(Path(tempfile.mkdtemp(prefix="faults-")))
        for name in ("runs", "tmp"):
            (lab.folder / name).mkdir()
        return lab

    @property
    def run_folder(self) -> Path:
        """Give the folder of the run."""
        return self.folder / "runs" / "run"

    def truth(self, rank: int = 0) -> Path:
        """Give the file in which a rank tells its steps."""
        return self.folder / f"truth-{rank}"

    def workload(self, **options: Any) -> Workload:
        """Describe a training process of this lab."""
        places = {"run_dir": str(self.folder / "runs"), "truth": str(self.truth())}
        return Workload(**(places | options))

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a Python process that leaves its temporary files in the lab."""
        kept = {
            **os.environ, TOKEN: self.token, "TMPDIR": str(self.folder / "tmp"),
            "OMP_NUM_THREADS": "1", **(environment or {}),
        }  # fmt: skip
        log = (self.folder / f"log-{len(self.started)}").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, *arguments], env=kept, stdout=log, stderr=log
            )
        self.started.append(process)
        return process

    def train(
        self, workload: Workload, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a training process."""
        return self.start(["-m", "benchmarks.faults.workload", workload.to_json()], environment)

    def wait_for_step(self, number: int, rank: int = 0) -> None:
        """Wait until a rank has completed a step.

        Raises:
            TimeoutError: It did not.
        """
        until = time.monotonic() + _PATIENCE_S
        while len(self.told(rank).steps) < number:
            if time.monotonic() > until:
                raise TimeoutError(f"no step {number}: {self.logs()}")
            time.sleep(0.005)

    def told(self, rank: int = 0) -> Told:
        """Read what a rank told."""
        steps, reported = [], None
        with suppress(FileNotFoundError):
            for line in self.truth(rank).read_text("utf-8").splitlines():
                kind, *words = line.split()
                if kind == "step" and len(words) == 3:
                    steps.append(Step(int(words[0]), int(words[1]), words[2]))
                if kind == "reported":
                    reported = int(words[0])
        return Told(steps, reported)

    def logs(self) -> str:
        """Give the last lines of what the processes printed."""
        return "\n".join(p.read_text("utf-8", "replace")[-600:] for p in self.folder.glob("log-*"))

    def report(
        self, folder: Path | None = None, *, later: bool = False, write: bool = True
    ) -> Summary:
        """Make the report of the run as `traintrace report` does.

        Args:
            folder: Where the run is; None for its usual place.
            later: Report as if a minute had passed, so that what is silent counts as lost.
            write: Write its files too.
        """
        folder = folder or self.run_folder
        for file in folder.glob("ranks/*") if later else ():
            stat = file.stat()
            os.utime(file, (stat.st_atime - 60, stat.st_mtime - 60))
        return read_or_make(folder) if write else summarise_run(folder)

    def lost_s(
        self, end_ns: int, *, folder: Path | None = None, ranks: Sequence[int] = (0,)
    ) -> float:
        """Give how long before the end the first completed step lies that the record lacks; 0 for none.

        Args:
            end_ns: When the fault happened, on the monotonic clock.
            folder: Where the run is.
            ranks: Ranks to look at.
        """
        place = folder or self.run_folder
        facts = open_run(place).facts(["step"]) if place.is_dir() else None
        last = {} if facts is None else {r.rank: r.totals.last_step for r in facts.ranks}
        missing = [
            step.at_ns
            for rank in ranks
            for step in self.told(rank).steps
            if step.number > last.get(rank, 0) and step.at_ns <= end_ns
        ]
        return max(0.0, (end_ns - min(missing)) / 1e9) if missing else 0.0

    def leftovers(self, *, killed: bool, folder: Path | None = None) -> list[str]:
        """Name what should not be there: processes, temporary files, half-written JSON, held files."""
        found = [f"process {number}" for number in self._processes()]
        found += [f"temporary {path.name}" for path in (self.folder / "tmp").iterdir()]
        place = folder or self.run_folder
        for path in sorted(place.rglob("*")) if place.is_dir() else []:
            if path.is_dir() or path.name in _OWN_FILES:
                continue
            if not (path.suffix == ".sqlite" or (killed and path.name.endswith(_LOGS))):
                found.append(f"file {path.name}")
        for path in place.rglob("*.json"):
            try:
                json.loads(path.read_text("utf-8"))
            except ValueError:
                found.append(f"half-written {path.name}")
        return found + [f"held {path.name}" for path in place.rglob("*.sqlite") if _is_held(path)]

    def _processes(self) -> list[int]:
        """Give the processes of this lab that live."""
        told = [int(path.read_text("utf-8") or 0) for path in self.folder.glob("pid-*")]
        living = [number for number in told if number and _is_alive(number)]
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{TOKEN}={self.token}".encode() in path.read_bytes():
                    living.append(int(path.parent.name))
        return living

    def wait_for_processes(self, seconds: float) -> list[str]:
        """Wait until no process of this lab lives; name those that live on for longer."""
        until = time.monotonic() + seconds
        while self._processes() and time.monotonic() < until:
            time.sleep(0.01)
        return [f"orphan {number}" for number in self._processes()]

    def close(self) -> None:
        """End what still runs, and remove everything."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for number in self._processes():
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_alive(number: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(") ")[2][:1]
        return state not in ("Z", "X")
    return False


def _is_held(path: Path) -> bool:
    """Tell whether somebody holds a lock on a rank file."""
    connection = sqlite3.connect(path, timeout=0.2)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.rollback()
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    finally:
        connection.close()
    return False
