"""The rank's side of `delivery`: takes in what child processes handed on."""

import json
import os
import shutil
from collections.abc import Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from traintrace.faults import FaultReporter
from traintrace.stages.delivery import SUFFIX
from traintrace.stages.records import QueueUpdate, Update, WorkerUpdate

# Files taken in at one time; so a child that writes on and on delays nobody.
_MOST: Final = 256


class Inbox:
    """A folder of the run that exists while the session records stages.

    Args:
        path: Where it will lie.
        faults: Told of files that cannot be read.
    """

    def __init__(self, path: Path, faults: FaultReporter) -> None:
        self.path = path
        self._faults = faults
        self._is_open = False

    def open(self) -> None:
        """Make the folder; if it cannot be made, child processes hand on nothing."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._faults.warn(
                f"stages of child processes are not recorded: {self.path} cannot be made ({error})",
                recorded="stages of child processes were not recorded: their folder could not be made",
            )
            return
        self._is_open = True

    def take(self) -> dict[Hashable, list[Update]]:
        """Give what arrived since, by the process that recorded it, and remove it from the folder."""
        if not self._is_open:
            return {}
        return self._taken(self.path, most=_MOST)

    def close(self) -> dict[Hashable, list[Update]]:
        """Give the rest and remove the folder; children that still live record no more."""
        if not self._is_open:
            return {}
        self._is_open = False
        closed = self.path.with_name(f"{self.path.name}.closed")
        os.replace(self.path, closed)
        taken = self._taken(closed, most=None)
        shutil.rmtree(closed, ignore_errors=True)
        with suppress(OSError):  # another rank's lies there
            closed.parent.rmdir()
        return taken

    def _taken(self, folder: Path, most: int | None) -> dict[Hashable, list[Update]]:
        updates: dict[Hashable, list[Update]] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}"))[:most]:
            with self._faults.guard("some of what the stages of a child process did"):
                content = path.read_text("utf-8")
                path.unlink()
                updates.setdefault(path.name.partition(".")[0], []).append(read_update(content))
        return updates


def read_update(content: str) -> Update:
    """Give an update as `delivery` wrote it.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    workers, queues = json.loads(content)
    return Update(
        [WorkerUpdate._make(worker) for worker in workers],
        [QueueUpdate._make(queue) for queue in queues],
    )


def merged(updates: Mapping[Hashable, list[Update]]) -> list[dict[Hashable, Update]]:
    """Give updates as rounds, in each of which a process has one at most."""
    rounds: list[dict[Hashable, Update]] = []
    for source, several in updates.items():
        for place, update in enumerate(several):
            if place == len(rounds):
                rounds.append({})
            rounds[place][source] = update
    return rounds
