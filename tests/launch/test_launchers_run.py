"""The plain loop under `traintrace run`: no line of the script speaks of tracing, unless it wants to."""

import json
from pathlib import Path

import pytest

from tests.labs.ranks import summary_of
from tests.launch.lab import (
    PLAIN,
    RUN,
    RUN_2,
    check_job,
    launch,
    launch_by_environment,
    srun_variables,
)
from traintrace.runs.manifest import Manifest


def test_one_process_and_it_is_not_told_of_a_launcher(tmp_path: Path) -> None:
    job = launch(tmp_path, (*RUN, PLAIN, "--automatic", "--tell-environment", "seen.json"))
    summary = check_job(job, world=1, steps=6, launcher="none")
    assert summary["run"]["status"] == "completed"
    assert summary["run"]["exit_code"] == 0
    seen = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert Path(seen.pop("TRAINTRACE_RUN")) == job.run.absolute()
    assert seen == {}, "a framework would take these for a distributed job"


@pytest.mark.long  # what the worker does with a module is tested without torch
def test_a_module(tmp_path: Path) -> None:
    job = launch(tmp_path, (*RUN, "-m", "tests.launch.scripts.plain", "--automatic"))
    check_job(job, world=1, steps=6)


def test_two_ranks(tmp_path: Path) -> None:
    job = launch(tmp_path, (*RUN_2, "--run-name", "both", PLAIN, "--automatic"))
    summary = check_job(job, world=2, steps=6, launcher="torchrun")
    assert job.run.name == "both"
    assert summary["run"]["exit_code"] == 0
    training = Manifest.read(job.run).training
    assert training is not None
    assert (training.status, training.nodes_expected, training.nodes_observed) == (
        "completed",
        1,
        1,
    )


@pytest.mark.long
@pytest.mark.parametrize("options", [RUN, RUN_2], ids=["one", "two"])
def test_a_trace_that_the_script_asks_for_is_the_only_one(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Two traces of one loop would each see half of it, or make a second folder."""
    job = launch(tmp_path, (*options, PLAIN))
    check_job(job, world=1 if options == RUN else 2, steps=6)


@pytest.mark.long
def test_a_restart_is_a_second_attempt_of_the_same_run(tmp_path: Path) -> None:
    command = (*RUN_2, "--max-restarts", 1, PLAIN, "--automatic", "--join", "never")
    job = launch(tmp_path, (*command, "--steps", 10, "--crash-at", 5))
    assert job.code == 0, job.error[-3_000:]
    assert job.steps() == {(0, 0): 5, (0, 1): 5, (1, 0): 10, (1, 1): 10}
    assert [one["steps"] for one in summary_of(job.run)["run"]["attempts"]] == [5, 10]


def test_nothing_is_installed_or_written_when_disabled(tmp_path: Path) -> None:
    job = launch(tmp_path, (*RUN, "--disable", PLAIN, "--automatic", "--end", "exits"))
    assert (job.code, job.runs) == (7, [])
    assert "traintrace" not in job.error


@pytest.mark.long
def test_a_launcher_in_each_task_of_srun(tmp_path: Path) -> None:
    """Each starts one rank; they know the job's id, and the first of them reports."""
    job = launch_by_environment(
        tmp_path, (*RUN, PLAIN, "--automatic", "--join", "never"), srun_variables
    )
    check_job(job, world=2, steps=6, launcher="slurm")
    training = Manifest.read(job.run).training
    assert training is not None
    assert (training.status, training.nodes_observed) == ("completed", training.nodes_expected)
