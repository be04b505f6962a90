"""examples/slurm/train.sbatch, run by bash for real; only `srun` and `scontrol` are stand-ins."""

import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.labs.ranks import ROOT, summary_of
from tests.launch.lab import PLAIN, SCRIPTS, check_job, start, wait

TEMPLATE = ROOT / "examples" / "slurm" / "train.sbatch"


def free_port() -> int:
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """What sbatch puts into the environment of a batch script, and where the stand-ins are."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, content in {
        "srun": f'exec {sys.executable} {SCRIPTS / "fake_srun.py"} "$@"',
        "scontrol": "echo 127.0.0.1",
        "python": f'exec {sys.executable} "$@"',
    }.items():
        (commands / name).write_text(f"#!/bin/sh\n{content}\n", "utf-8")
        (commands / name).chmod(0o755)
    return {
        "PATH": os.pathsep.join([str(commands), os.environ["PATH"]]),
        "SLURM_JOB_ID": str(free_port() - 20_000),  # the template makes a port of it
        "SLURM_JOB_NAME": "digits",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "2",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }


def test_all_tasks_of_a_job_are_one_run_named_by_its_id(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (job,) = wait(tmp_path, start(tmp_path, ("bash", TEMPLATE, PLAIN), variables))
    check_job(job, world=2, nodes=2, steps=6, launcher="slurm")
    assert job.run.name == f"digits-{variables['SLURM_JOB_ID']}"
    assert job.error.count("traintrace ") == 1, "nothing but the report: no warning"


@pytest.mark.long
def test_without_a_line_of_tracing_in_the_script_as_the_template_says(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    text = TEMPLATE.read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("export TRAINTRACE_RUN")]
    launched = "\n".join(lines).replace("exec python ", "exec python -m traintrace_reporting run ")
    (tmp_path / "job.sbatch").write_text(launched, "utf-8")
    command = ("bash", "job.sbatch", PLAIN, "--automatic", "--join", "never")
    (job,) = wait(tmp_path, start(tmp_path, command, variables))
    check_job(job, world=2, nodes=2, steps=6, launcher="slurm")


def test_a_preempted_job_keeps_what_it_recorded_and_goes_on_in_the_same_run(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    """Slurm sends SIGTERM to the tasks, the script saves and leaves; the job is queued again by its id."""
    command = ("bash", TEMPLATE, PLAIN, "--steps", "100000", "--step-ms", "5", "--leave-on-sigterm")
    batch = start(tmp_path, command, variables)
    until = time.monotonic() + 200
    while len([*tmp_path.glob("training-*")]) < 2 and time.monotonic() < until:
        assert batch.poll() is None, batch.communicate()
        time.sleep(0.05)
    processes = psutil.Process(batch.pid).children(recursive=True)
    (srun,) = [one for one in processes if str(SCRIPTS / "fake_srun.py") in one.cmdline()]
    srun.send_signal(signal.SIGTERM)
    (preempted,) = wait(tmp_path, batch)
    assert preempted.code == 9, preempted.error[-3_000:]
    summary = summary_of(preempted.run)
    assert (summary["run"]["status"], summary["run"]["ranks_seen"]) == ("failed", [0, 1])
    first = preempted.steps()
    assert all(3 <= steps < 100_000 for steps in first.values())

    again = start(tmp_path, ("bash", TEMPLATE, PLAIN), variables | {"SLURM_RESTART_COUNT": "1"})
    (requeued,) = wait(tmp_path, again)
    assert requeued.code == 0, requeued.error[-3_000:]
    assert requeued.run == preempted.run
    assert requeued.steps() == first | {(1, 0): 6, (1, 1): 6}
    summary = summary_of(requeued.run)
    assert summary["run"]["status"] == "completed"
    assert [one["status"] for one in summary["run"]["attempts"]] == ["failed", "completed"]
