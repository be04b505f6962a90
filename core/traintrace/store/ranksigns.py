"""What a rank's file tells of its process without being read: whether it has ended, died or fallen silent."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import RunStatus
from traintrace.runs.liveness import is_dead
from traintrace.store.reader import RankReader


def is_in_memory(location: str) -> bool:
    """Say whether a location is a name in this process's memory: its writer lives."""
    return location.startswith("file:")


def written_at(location: str) -> float:
    """Give the Unix time of the last write to a rank file or its log; 0 if it is in memory."""
    times = [
        path.stat().st_mtime
        for path in (Path(location), Path(f"{location}-wal"))
        if not is_in_memory(location) and path.exists()
    ]
    return max(times, default=0.0)


def is_running(head: Mapping[str, Any]) -> bool:
    """Say whether a rank has not written that it ended: it is at work, or was lost."""
    return bool(head.get("status", "running") == "running")


def has_ended(location: str) -> bool:
    """Say whether the rank has written its last row."""
    return not is_running(head_of(location))


def has_died(location: str) -> bool:
    """Say whether the rank's process is known to have ended without having written its last row.

    Known at once for a process of this machine. Of another machine's nothing is known.
    """
    if is_in_memory(location):
        return False
    head = head_of(location)
    return is_running(head) and is_dead(head.get("process"))


def status_of_ranks(heads: Sequence[Mapping[str, Any]], world_size: int) -> RunStatus:
    """Give how the last attempt ended, as its ranks say; "running" unless all of them have ended.

    Args:
        heads: What the rank files say of their ranks.
        world_size: How many ranks there are.
    """
    last = max((_attempt(head) for head in heads), default=0)
    states = [head.get("status", "running") for head in heads if _attempt(head) == last]
    if len(states) < world_size:
        return "running"
    order: tuple[RunStatus, ...] = ("running", "failed", "interrupted", "completed")
    return next((state for state in order if state in states), "running")


def _attempt(head: Mapping[str, Any]) -> int:
    attempt = head.get("attempt")
    return attempt if isinstance(attempt, int) else 0


def head_of(location: str) -> Mapping[str, Any]:
    """Give what a rank's file says of its rank besides its rows; nothing if it cannot be read.

    Raises:
        NewerSchemaError: It was written by a newer traintrace.
    """
    try:
        reader = RankReader(location)
    except NewerSchemaError:
        raise
    except RunReadError:
        return {}
    try:
        return reader.meta()
    except RunReadError:
        return {}
    finally:
        reader.close()
