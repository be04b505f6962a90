"""Several processes: torchrun launches them, unchanged, and nobody outlives it."""

import os
import signal
from pathlib import Path

import pytest

from tests.launch.launchlab import PYTHON, end_of, eventually, launcher, lives, script, start

# The ranks' workers need no torch: what torchrun does with them is the point.
WHO = """
    import os, sys
    where = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
    with open(f"rank-{where[0]}", "w") as file:
        print(*where, os.environ["MASTER_PORT"], os.getpid(), sys.argv, file=file)
"""
WAITS = (
    WHO
    + """
    import time
    time.sleep(600)
"""
)
TORCHRUN = [PYTHON, "-m", "torch.distributed.run"]


def said(folder: Path) -> list[list[str]]:
    return [(folder / f"rank-{rank}").read_text("utf-8").split(maxsplit=5) for rank in (0, 1)]


def all_run(folder: Path) -> bool:
    files = [folder / f"rank-{rank}" for rank in (0, 1)]
    return all(file.exists() and file.read_text("utf-8").endswith("\n") for file in files)


def test_two_jobs_at_once_do_not_meet_and_ranks_are_torchruns(tmp_path: Path) -> None:
    jobs = []
    for name in ("a", "b"):
        words = launcher(script(tmp_path / name, WHO), "x", torchrun=["--nproc-per-node=2"])
        jobs.append(start(tmp_path / name, words))
    for job in jobs:
        ended = end_of(job)
        assert ended.code == 0, ended.error
    for name in ("a", "b"):
        ranks = said(tmp_path / name)
        assert [rank[:3] for rank in ranks] == [["0", "2", "2"], ["1", "2", "2"]]
        assert {rank[5] for rank in ranks} == {"['train.py', 'x']\n"}
    assert said(tmp_path / "a")[0][3] != said(tmp_path / "b")[0][3]


def test_a_rank_that_fails_gives_torchruns_own_exit_code(tmp_path: Path) -> None:
    source = WHO + "\n    sys.exit(7 if os.environ['RANK'] == '1' else 0)\n"
    plain = start(
        tmp_path, [*TORCHRUN, "--standalone", "--nproc-per-node=2", script(tmp_path, source)]
    )
    launched = start(tmp_path, launcher("train.py", torchrun=["--nproc-per-node", "2"]))
    expected, ended = end_of(plain), end_of(launched)
    assert ended.code == expected.code == 1
    assert "exitcode  : 7" in ended.error
    assert "traintrace/launch/agent.py" not in ended.error
    assert "mainprogram.py" not in ended.error


@pytest.mark.parametrize("disable", [False, True])
def test_no_rank_outlives_a_launcher_that_is_killed(disable: bool, tmp_path: Path) -> None:
    words = launcher(script(tmp_path, WAITS), torchrun=["--nproc-per-node=2"], disable=disable)
    job = start(tmp_path, words)
    assert eventually(lambda: all_run(tmp_path))
    ranks = [int(rank[4]) for rank in said(tmp_path)]
    os.kill(job.pid, signal.SIGKILL)
    assert eventually(lambda: not any(map(lives, ranks)))
    end_of(job)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_end_with_their_agent(number: signal.Signals, tmp_path: Path) -> None:
    words = launcher(script(tmp_path, WAITS), torchrun=["--nproc-per-node=2"])
    job = start(tmp_path, words)
    assert eventually(lambda: all_run(tmp_path))
    ranks = [int(rank[4]) for rank in said(tmp_path)]
    agent = int(Path(f"/proc/{ranks[0]}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    os.kill(agent if number == signal.SIGKILL else job.pid, number)
    ended = end_of(job)
    assert ended.code == (137 if number == signal.SIGKILL else 1)
    assert eventually(lambda: not any(map(lives, ranks)))


@pytest.mark.long
def test_a_restarted_job_goes_on_in_workers(tmp_path: Path) -> None:
    source = WHO + "\n    sys.exit(1 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)\n"
    words = launcher(script(tmp_path, source), torchrun=["--nproc-per-node=2", "--max-restarts=1"])
    ended = end_of(start(tmp_path, words))
    assert ended.code == 0, ended.error
