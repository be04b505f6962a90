"""How a job ended: its status, its exit code, and what the report says of nodes that are missing."""

from pathlib import Path

import pytest

from benchmarks.made_runs import write_long_run
from traintrace.facts import RunStatus
from traintrace.runs import manifest as manifests
from traintrace.runs.manifest import NodeExit, TrainingOutcome
from traintrace_reporting.endings import code_of_job, outcome_notes, status_of_run
from traintrace_reporting.finish import summarise_run


@pytest.mark.parametrize(
    ("said", "code", "status"),
    [
        ("completed", 0, "completed"),
        ("running", 0, "completed"),
        ("failed", 0, "failed"),  # the script went on after its training had failed
        ("interrupted", 0, "interrupted"),
        ("completed", 1, "failed"),  # something failed after training
        ("running", 1, "failed"),
        ("failed", 1, "failed"),
        ("running", 130, "interrupted"),
        ("running", 143, "interrupted"),
        ("interrupted", 1, "interrupted"),
        ("running", 137, "lost"),
        ("running", 139, "failed"),
    ],
)
def test_the_status_of_a_run_is_what_ranks_and_launcher_know_together(
    said: RunStatus, code: int, status: RunStatus
) -> None:
    assert status_of_run(said, code) == status


def test_a_job_fails_with_the_code_of_whichever_node_failed() -> None:
    nodes = (NodeExit(0, 0), NodeExit(1, 7), NodeExit(2, 9))
    training = TrainingOutcome("incomplete", 3, 3, ("node_training_failed",), nodes)
    assert code_of_job(0, training) == 7
    assert code_of_job(4, training) == 4
    assert code_of_job(0, TrainingOutcome("completed", 1, 1, (), (NodeExit(0, 0),))) == 0


def test_a_single_node_has_nothing_to_tell_of_nodes() -> None:
    failed = TrainingOutcome("incomplete", 1, 1, ("node_training_failed",), (NodeExit(0, 1),))
    assert outcome_notes(failed) == outcome_notes(None) == []


def test_nodes_that_failed_or_said_nothing_are_named_in_the_report(tmp_path: Path) -> None:
    folder = write_long_run(tmp_path / "long", 60)
    training = TrainingOutcome(
        "incomplete",
        4,
        2,
        ("node_outcome_missing", "node_training_failed"),
        (NodeExit(0, 0), NodeExit(2, 137)),
    )
    manifests.update(folder, training=training)
    warnings = summarise_run(folder)["warnings"]
    assert "Training failed on node 2, exit code 137." in warnings
    assert "Node 1, 3 did not say how training ended there." in warnings
