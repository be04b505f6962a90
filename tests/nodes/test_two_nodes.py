"""Jobs of two machines with two ranks each that share no disk: what is published is one whole run."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.labs.nodes import Machine, job
from tests.labs.ranks import COLUMNS
from traintrace import open_run
from traintrace.publishing.fetch import fetch_run
from traintrace_reporting.finish import summarise_run

SCRIPT = Path(__file__).with_name("training.py")
Machines = tuple[Machine, Machine]
STEPS = 25


def summary_at(published: Path) -> Any:
    return json.loads((published / "two-nodes/final_summary.json").read_text("utf-8"))


def check_whole(summary: Any, steps: int) -> None:
    """The summary is of four ranks on two nodes, and of every step."""
    run = summary["run"]
    assert (run["status"], run["world_size"]) == ("completed", 4)
    assert run["ranks_seen"] == [0, 1, 2, 3]
    assert run["nodes"] == {"expected": 2, "seen": 2}
    assert summary["counts"]["steps"] == steps
    assert summary["counts"]["samples"] == 4 * 4 * steps
    assert summary["counts"]["dropped_rows"] == 0


def check_clean(machines: Machines, published: Path) -> None:
    """Nothing stays on a machine's disk, and at the common place each rank has one whole file."""
    assert [one.leftovers for one in machines] == [[], []]
    run = published / "two-nodes"
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    ranks = [f"ranks/rank-0000{rank}.sqlite" for rank in range(4)]
    assert files == [
        ".run-id", "final_summary.json", "final_summary.txt", "manifest.json", *ranks
    ]  # fmt: skip


def test_two_nodes_make_one_run(machines: Machines, published: Path) -> None:
    with job(machines, SCRIPT, published.as_uri(), "--steps", STEPS) as running:
        ended = running.wait()
    assert [code for code, _ in ended] == [0, 0], ended
    check_whole(summary_at(published), STEPS)
    check_clean(machines, published)
    first, second = (error for _, error in ended)
    assert "two-nodes" in first, "the first rank reports"
    assert published.as_uri() in first, "and says where the run lies"
    assert "two-nodes" not in second
    ranks = open_run(published / "two-nodes").facts(COLUMNS).ranks
    assert [(rank.rank, rank.node) for rank in ranks] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    for rank in ranks:
        assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
        assert len(rank.columns["step"]) == STEPS


@pytest.mark.long
def test_a_sharded_model_on_two_nodes(machines: Machines, published: Path) -> None:
    with job(machines, SCRIPT, published.as_uri(), "--steps", STEPS, "--sharded") as running:
        ended = running.wait()
    assert [code for code, _ in ended] == [0, 0], ended
    summary = summary_at(published)
    check_whole(summary, STEPS)
    check_clean(machines, published)
    assert "FSDP" in summary["setup"]["strategy"].upper()


@pytest.mark.long
def test_a_node_that_dies_leaves_what_it_published(machines: Machines, published: Path) -> None:
    run = published / "two-nodes"
    with job(
        machines, SCRIPT, published.as_uri(), "--steps", 5_000, "--step-ms", 10, "--wait-s", 1
    ) as running:
        wait_for_segments(run, ranks=4, each=4)
        running.lose(1)
        ((code, _),) = running.wait(0)
    assert code != 0
    folder = fetch_run(run.as_uri())
    summary = summarise_run(folder)
    assert summary["run"]["ranks_seen"] == [0, 1, 2, 3]
    assert summary["run"]["nodes"] == {"expected": 2, "seen": 2}
    assert summary["run"]["status"] != "completed"
    steps = {rank.rank: rank.totals.steps for rank in open_run(folder).facts(COLUMNS).ranks}
    assert min(steps.values()) >= 10
    assert (
        summary["counts"]["steps"] == min(steps.values())
        or summary["counts"]["steps"] in steps.values()
    )
    told = " ".join(summary["warnings"])
    for rank in (2, 3):
        assert f"rank {rank} ended without a word after step {steps[rank]}" in told, told
    assert "s from there to the end of the run are not in its record" in told
    for one in open_run(folder).facts(COLUMNS).ranks:
        assert sum(one.totals.account_ns.values()) == one.totals.wall_ns


def wait_for_segments(run: Path, ranks: int, each: int) -> None:
    until = time.monotonic() + 60.0
    while True:
        by_rank = [len(list(path.iterdir())) for path in run.glob("segments/*")]
        if len(by_rank) == ranks and min(by_rank) >= each:
            return
        assert time.monotonic() < until, f"segments by rank: {by_rank}"
        time.sleep(0.05)


LAUNCHER = ("-m", "traintrace_reporting", "run", "--run-name", "two-nodes")


@pytest.mark.long
def test_two_launchers_make_one_run(machines: Machines, published: Path) -> None:
    """As `traintrace run` on each node: the first one makes the report, when both have ended."""
    launcher = (*LAUNCHER, "--run-dir", published.as_uri())
    with job(machines, SCRIPT, "unused", "--steps", STEPS, launcher=launcher) as running:
        ended = running.wait()
    assert [code for code, _ in ended] == [0, 0], ended
    summary = summary_at(published)
    check_whole(summary, STEPS)
    assert summary["run"]["exit_code"] == 0
    assert [one.leftovers for one in machines] == [[], []]
    first, second = (error for _, error in ended)
    assert str(published / "two-nodes") in first
    assert "Where the time went" in first
    assert "Where the time went" not in second
    training = json.loads((published / "two-nodes/manifest.json").read_text("utf-8"))["training"]
    assert (training["status"], training["nodes_observed"]) == ("completed", 2)


@pytest.mark.long
def test_the_first_launcher_reports_what_a_lost_node_published(
    machines: Machines, published: Path
) -> None:
    run = published / "two-nodes"
    launcher = (*LAUNCHER, "--run-dir", published.as_uri())
    arguments = ("unused", "--steps", 5_000, "--step-ms", 10)
    with job(machines, SCRIPT, *arguments, launcher=launcher) as running:
        wait_for_segments(run, ranks=4, each=4)
        running.lose(1)
        ((code, error),) = running.wait(0)
    assert code not in (0, -9), error
    summary = summary_at(published)
    assert summary["run"]["ranks_seen"] == [0, 1, 2, 3]
    assert summary["run"]["status"] == "failed"
    assert summary["run"]["exit_code"] == code
    told = " ".join(summary["warnings"])
    for rank in (2, 3):
        assert f"rank {rank} ended without a word" in told, told
    training = json.loads((run / "manifest.json").read_text("utf-8"))["training"]
    assert training["status"] == "incomplete"
    assert "node_outcome_missing" in training["reasons"]
