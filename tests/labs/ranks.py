"""Start real ranks with torchrun, and read what each of them recorded."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from traintrace import accounts, facts, open_run
from traintrace_reporting import summarise_run

ROOT: Final = Path(__file__).parents[2]
COLUMNS: Final = (
    *("step", "micro_batches", "start_ns", "open_ns", "duration_ns", "flags", "rss_bytes"),
    *(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES),
    *(f"{name}_calls" for name in accounts.PHASES),
)
WAITING: Final = accounts.GROUPS["waiting"]
# The first steps build buckets, connect ranks and compile.
WARMUP_STEPS: Final = 4


def launch(
    script: Path,
    *arguments: object,
    ranks: int,
    options: Sequence[str] = (),
    timeout_s: float = 150.0,
    code: int = 0,
) -> tuple[str, float]:
    """Run `script` as a job of so many ranks; give its standard error and how long it took [s].

    Whatever happens, no process of the job is left behind.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *options]
    command += ["--nproc-per-node", str(ranks), str(script), *map(str, arguments)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    began = time.monotonic()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    ) as job:
        try:
            output, error = job.communicate(timeout=timeout_s)
        finally:
            end_job(job)
    assert job.returncode == code, output[-2_000:] + error[-6_000:]
    return error, time.monotonic() - began


class Job:
    """A job of several ranks whose runs several tests look at; it is run again only if one of them fails.

    Ranks that share few cores with other processes are really slow now and then.
    """

    TRIES: Final = 3

    def __init__(self, folder: Path, script: Path, ranks: int, *arguments: str) -> None:
        self._folder, self._script, self._ranks = folder, script, ranks
        self._arguments, self._tried = arguments, 0

    def first(self, name: str) -> Path:
        """Give the run `name` of the first try, for all that no other process can disturb."""
        return self._run(0) / name

    def check(self, name: str, check: Callable[[Path], None]) -> None:
        """Let the run `name` of one of the first few tries pass `check`, for what depends on clocks."""
        for number in range(self.TRIES):
            folder = self._run(number) / name
            try:
                return check(folder)
            except (AssertionError, pytest.skip.Exception):
                if number == self.TRIES - 1:
                    raise

    def _run(self, number: int) -> Path:
        folder = self._folder / str(number)
        if number == self._tried:
            launch(self._script, folder, *self._arguments, ranks=self._ranks, timeout_s=240)
            self._tried += 1
        return folder


def end_job(job: subprocess.Popen[str]) -> None:
    """End a job that is not over; its ranks are in sessions of their own."""
    if job.poll() is not None:
        return
    launcher = psutil.Process(job.pid)
    processes = [*launcher.children(recursive=True), launcher]
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=10)


def ranks_of(folder: Path, attempt: int | None = None) -> tuple[facts.RankFacts, ...]:
    """Read the ranks of a run (of one attempt), each with its books checked."""
    ranks = open_run(folder).facts(COLUMNS).ranks
    for rank in ranks:
        assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
        assert rank.totals.unbalanced == 0
    return tuple(rank for rank in ranks if attempt in (None, rank.attempt))


def summary_of(folder: Path) -> Any:
    """Make the summary of a run, as `traintrace report` does."""
    return summarise_run(open_run(folder))


def named(folder: Path, family: str = "ranks") -> dict[str, list[int]]:
    """Give the kinds of findings that the report names, with the ranks of each."""
    return {
        finding["kind"]: finding["ranks"]
        for finding in summary_of(folder)["findings"]
        if finding["family"] == family and finding["severity"] != "info"
    }


def step_ms(rank: facts.RankFacts, account: str, skip: int = WARMUP_STEPS) -> list[float]:
    """Give one account's time in each step after the warm-up [ms]; what was not measured is 0."""
    return [(ns or 0) / 1e6 for ns in rank.columns[f"{account}_ns"][skip:]]


def median_ms(rank: facts.RankFacts, *names: str) -> float:
    """Give the median over steps of the sum of some accounts [ms]."""
    return statistics.median(map(sum, zip(*(step_ms(rank, name) for name in names), strict=True)))


def own_ms(rank: facts.RankFacts) -> float:
    """Give the median over steps of all that the rank did itself [ms]."""
    return median_ms(rank, *(n for n in accounts.STEP_ACCOUNT_NAMES if n not in WAITING))


def excess_ms(ranks: Sequence[facts.RankFacts], culprit: int, *names: str) -> float:
    """Give by how much `culprit` exceeds the median of the others, in some accounts or all own work [ms]."""
    mine = {rank.rank: median_ms(rank, *names) if names else own_ms(rank) for rank in ranks}
    return mine.pop(culprit) - statistics.median(mine.values())
