"""Nobody outlives a launcher, and nobody is left when training has ended."""

import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from tests.launch.launchlab import (
    PYTHON,
    SLEEPS,
    eventually,
    group_of,
    launcher,
    lives,
    ready,
    run,
    script,
    start,
)
from tests.launch.launchlab import end_of as end
from traintrace.launch.parentdeath import this_process


@pytest.mark.parametrize("disable", [False, True])
def test_nobody_outlives_a_launcher_that_is_killed(disable: bool, tmp_path: Path) -> None:
    job = start(tmp_path, launcher(script(tmp_path, SLEEPS), disable=disable))
    child = ready(job)
    assert len(group_of(job.pid)) == 3  # and the witness
    os.kill(job.pid, signal.SIGKILL)
    assert eventually(lambda: not group_of(job.pid))
    assert not lives(child)
    end(job)


def test_a_signal_in_the_first_moments_is_not_lost_and_leaves_nobody(tmp_path: Path) -> None:
    words = launcher(script(tmp_path, SLEEPS))
    for delay_s in (0.0, 0.05, 0.1, 0.12, 0.14, 0.16, 0.2, 0.25):
        job = start(tmp_path, words)
        time.sleep(delay_s)
        os.kill(job.pid, signal.SIGTERM)
        # Before it launches the launcher is an ordinary process.
        assert job.wait(60) in (-signal.SIGTERM, 128 + signal.SIGTERM)
        assert eventually(lambda leader=job.pid: not group_of(leader))  # type: ignore[misc]
        end(job)


def test_nothing_is_left_when_training_has_ended(tmp_path: Path) -> None:
    job = start(tmp_path, launcher(script(tmp_path, "")))
    job.wait(60)
    assert not group_of(job.pid)
    assert end(job).error == "ended 0 None\n"


def test_children_of_training_are_its_own_affair(tmp_path: Path) -> None:
    source = """
        import subprocess, sys
        nothing = subprocess.DEVNULL
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        print(subprocess.Popen(sleep, stdin=nothing, stdout=nothing, stderr=nothing).pid)
    """
    job = start(tmp_path, launcher(script(tmp_path, source)))
    assert job.wait(60) == 0
    assert job.stdout is not None
    assert lives(int(job.stdout.readline()))
    end(job)


def test_a_worker_whose_parent_is_gone_ends_and_one_behind_a_wrapper_does_not() -> None:
    gone = start(Path.cwd(), [PYTHON, "-c", "pass"])
    assert end(gone).code == 0
    namespace = this_process().partition("@")[2]
    for parent, code in (
        (f"{gone.pid}@{namespace}", -signal.SIGKILL),
        (f"{gone.pid}@pid:[1]", 0),  # in a container of its own: the number says nothing
        (this_process(), 0),
    ):
        program = f"from traintrace.launch.parentdeath import die_with; die_with({parent!r})"
        wrapped = 'import subprocess, sys; print(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)'
        result = run(Path.cwd(), [PYTHON, "-c", wrapped, program])
        assert int(result.output) == code


# Starts another rank the way Lightning does, and stays or ends before it.
STARTS_A_RANK = """
    import os, subprocess, sys, time
    from traintrace.launch.parentdeath import name_of
    from traintrace.launch.plan import WORKER
    command = [sys.executable, *WORKER, "--launcher", name_of(os.getppid()), "rank.py"]
    rank = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    print(rank.stdout.readline(), end="", flush=True)
    time.sleep({stays_s})
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux from 5.3 on")
def test_a_rank_that_a_rank_has_started_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(textwrap.dedent(SLEEPS))
    job = start(tmp_path, launcher(script(tmp_path, STARTS_A_RANK.format(stays_s=600))))
    rank = ready(job)
    os.kill(job.pid, signal.SIGKILL)
    assert eventually(lambda: not group_of(job.pid)), "somebody is left"
    assert not lives(rank)
    end(job)


def test_a_rank_that_a_rank_has_started_may_outlive_it(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(textwrap.dedent(SLEEPS))
    words = [PYTHON, "-m", "traintrace_reporting", "run"]
    job = start(tmp_path, [*words, script(tmp_path, STARTS_A_RANK.format(stays_s=0))])
    rank = ready(job)
    try:
        assert job.wait(60) == 0
        time.sleep(0.3)
        assert lives(rank)
    finally:
        os.kill(rank, signal.SIGKILL)
    end(job)
