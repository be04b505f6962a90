"""How a launched job ended, from what its ranks said and what its launchers saw."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from traintrace.facts import RunStatus
from traintrace.runs.manifest import TrainingOutcome

# What our own command ends with where the program could not be started.
NOT_STARTED: Final = 1

# Sent by people and schedulers to end a job; what is left to them is told apart from a crash.
_INTERRUPTS: Final = frozenset(
    128 + getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_KILLED: Final = 137  # SIGKILL: by the kernel's memory killer, or by a scheduler that lost patience

_REASONS: Final = {
    "node_outcome_missing": "did not say how training ended there",
    "node_outcome_invalid": "left an outcome that cannot be read",
    "node_outcome_conflict": "left an outcome of another job",
}


def code_of_job(exit_code: int, training: TrainingOutcome) -> int:
    """Give the exit code of the whole job: this node's, or the first other one that tells of a failure."""
    failed = (node.exit_code for node in training.nodes if node.exit_code)
    return exit_code or next(failed, 0)


def status_of_run(said: RunStatus, exit_code: int) -> RunStatus:
    """Give the status of a run whose job has ended.

    Args:
        said: What rank 0 said, "running" if it said nothing.
        exit_code: Of the job; 128 + n if signal n ended it.
    """
    if exit_code == 0:
        return "completed" if said in ("running", "lost") else said
    if said in ("failed", "interrupted"):
        return said
    if exit_code in _INTERRUPTS:
        return "interrupted"
    return "lost" if exit_code == _KILLED else "failed"


def outcome_notes(training: TrainingOutcome | None) -> list[str]:
    """Give one sentence for each node that failed, and one on those of which nothing is known."""
    if training is None or training.nodes_expected < 2:
        return []
    notes = [
        f"Training failed on node {node.node_rank}, exit code {node.exit_code}."
        for node in training.nodes
        if node.exit_code
    ]
    seen = {node.node_rank for node in training.nodes}
    silent = [str(node) for node in range(training.nodes_expected) if node not in seen]
    why = [told for reason, told in _REASONS.items() if reason in training.reasons]
    if silent:
        told = " or ".join(why) or "did not say how training ended there"
        notes.append(f"Node {', '.join(silent)} {told}.")
    if "node_outcome_collection_failed" in training.reasons:
        notes.append("How training ended on the other nodes could not be collected.")
    return notes


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """End what is inside at Ctrl-C with one sentence: it makes a report, and training is over."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            "traintrace: interrupted while making the report; `traintrace report` can make it",
            file=sys.stderr,
        )
