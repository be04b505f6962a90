"""How a child process hands on what it records: small files in a folder that its parent's rank empties.

A file holds what changed in half a second and gets its name when it is whole, so a child that is killed loses
that much. The folder goes when the session ends, which is how a child learns of it. No file waits for anybody:
while the parent takes none, the sums go on in memory and the latest services and moments are kept.
"""

import atexit
import json
import os
import secrets
import threading
from collections import deque
from multiprocessing import util
from pathlib import Path
from typing import Final, Protocol

from traintrace.faults import FaultReporter
from traintrace.stages.records import Update

INTERVAL_S: Final = 0.5
# Files that may lie there unread.
MOST_WAITING: Final = 32
SUFFIX: Final = ".json"
# Where in a run's folder its ranks have the folders of their children, each named after rank and process.
INBOXES: Final = "stages"
# After all that the child itself does when it ends.
_LAST: Final = -1_000


class Source(Protocol):
    """The recorder whose record is handed on.

    Attributes:
        recording: False once the session has ended.
    """

    @property
    def faults(self) -> FaultReporter: ...  # noqa: D102 - tells what is lost

    @property
    def recording(self) -> bool: ...  # noqa: D102 - see above

    def take(self) -> Update:
        """Give what changed since it was asked last."""

    def end(self) -> None:
        """The session has ended: record no more."""


class Delivery:
    """Hands on what a child's recorder has, by a thread of its own.

    Args:
        recorder: What records in this process.
        inbox: The folder.
    """

    def __init__(self, recorder: Source, inbox: Path) -> None:
        self._recorder = recorder
        self._inbox = inbox
        self._source = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._process = os.getpid()
        self._files = 0
        self._waiting: deque[Path] = deque()
        self._delivering = threading.Lock()
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread; what it has not handed on goes when the process ends, unless it is killed."""
        atexit.register(self.finish)
        util.Finalize(None, self.finish, exitpriority=_LAST)  # such a child runs no `atexit`
        threading.Thread(target=self._run, name="traintrace-stages", daemon=True).start()

    def finish(self) -> None:
        """Hand on the rest."""
        if os.getpid() == self._process:
            self._stop.set()
            self.deliver()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self.deliver()

    def deliver(self) -> None:
        """Hand on what is new; does nothing if the session has ended."""
        with self._delivering, self._recorder.faults.guard("the stages of this process"):
            while self._waiting and not self._waiting[0].exists():
                self._waiting.popleft()
            if len(self._waiting) >= MOST_WAITING or not self._recorder.recording:
                return
            update = self._recorder.take()
            if not update.workers and not update.queues:
                return
            try:
                self._write(update)
            except FileNotFoundError:
                self._recorder.end()
                self._stop.set()

    def _write(self, update: Update) -> None:
        path = self._inbox / f"{self._source}.{self._files:08d}{SUFFIX}"
        unfinished = path.with_suffix(".tmp")
        try:
            unfinished.write_text(json.dumps(update), "utf-8")
            os.replace(unfinished, path)
        except FileNotFoundError:
            raise
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        self._files += 1
        self._waiting.append(path)
