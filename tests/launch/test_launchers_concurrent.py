"""Jobs that start at one instant on one machine: each has its own run, and each of its ranks is in it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.labs.ranks import ranks_of
from tests.launch.lab import PLAIN, PYTHON, SCRIPTS, TORCHRUN, Ended, launch, two_at_a_time
from traintrace import open_run
from traintrace.runs.manifest import Manifest


def check_runs(folder: Path, jobs: int, ranks: int, steps: int) -> None:
    runs = sorted((folder / "runs").iterdir())
    assert len(runs) == jobs
    assert len({Manifest.read(run).id for run in runs}) == jobs
    for run in runs:
        recorded = {rank.rank: rank.totals.steps for rank in ranks_of(run)}
        assert recorded == dict.fromkeys(range(ranks), steps), run.name
        facts = open_run(run).facts(("step",))
        assert (facts.status, facts.world_size) == ("completed", ranks)


@pytest.mark.parametrize("name", [(), ("mine",)], ids=["unnamed", "named"])
@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
def test_fifty_starts_of_four_ranks_at_a_minutes_edge_are_fifty_runs(
    tmp_path: Path, rounds: int, name: tuple[str, ...]
) -> None:
    """Ranks of one job that would choose different names, and jobs that would all choose the same."""
    for number in range(rounds):
        folder = tmp_path / str(number)
        done = launch(folder, (*PYTHON, SCRIPTS / "light_jobs.py", "runs", 50, 4, *name))
        assert done.code == 0, done.error[-3_000:]
        check_runs(folder, jobs=50, ranks=4, steps=3)


@pytest.mark.long  # the light jobs above meet in the same places
@pytest.mark.parametrize(("jobs", "ranks"), [(2, 2), (50, 4)], ids=["few", "fifty"])
def test_torchrun_jobs_at_once_do_not_meet(tmp_path: Path, jobs: int, ranks: int) -> None:
    """Nothing of ours has a port or a fixed place; the ranks ask the store that is theirs."""
    command = (*TORCHRUN, "--standalone", "--nproc-per-node", ranks, PLAIN, "--join", "never")

    def one(number: int) -> Ended:
        return launch(tmp_path, (*command, "--minutes-edge"))

    for job in two_at_a_time(one, range(jobs)):
        assert job.code == 0, job.error[-3_000:]
        # Not one warning about another job's run.
        assert Counter(job.error.split())["traintrace:"] == 0
    check_runs(tmp_path, jobs=jobs, ranks=ranks, steps=6)
