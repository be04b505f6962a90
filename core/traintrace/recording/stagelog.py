"""The stages of a session: what its process and that one's children record, as rows for the drain."""

import os
from collections.abc import Hashable, Mapping
from pathlib import Path

from traintrace.clock import HostAnchor
from traintrace.faults import FaultReporter
from traintrace.recording.journal import Clock
from traintrace.registry import REGISTRY
from traintrace.stages.delivery import INBOXES
from traintrace.stages.inbox import Inbox, merged
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.records import Update
from traintrace.store.stagerows import Merger, joined
from traintrace.store.stagetables import StageRows


class StageLog:
    """Records the stages of one session. Until a stage or a queue is named it costs nothing.

    Attributes:
        recorder: What threads and tasks of this process write to.

    Args:
        folder: Folder in which the session records.
        called: What no other process of the run has, for a name.
        faults: The session's.
        anchor: The session's.
        now: The clock [ns, monotonic].
    """

    def __init__(
        self, folder: Path, called: str, faults: FaultReporter, anchor: HostAnchor, now: Clock
    ) -> None:
        self._faults = faults
        self._inbox = Inbox(folder / INBOXES / f"{called}.{os.getpid()}", faults)
        self.recorder = StageRecorder(
            faults, now, inbox=self._inbox.path, when_used=self._inbox.open
        )
        self._merger = Merger(anchor.offset_ns)

    def begin(self) -> None:
        """Let `traintrace.stage` and `queue` find it, and take up what they were told before this instant."""
        REGISTRY.recorders.append(self.recorder)
        if REGISTRY.named:
            with self._faults.guard("stages and queues that were named before the trace began"):
                from traintrace.stages.takingup import take_up  # loaded by those who need it

                take_up(REGISTRY.named, self.recorder)

    def end(self) -> None:
        """Record nothing after this instant, and give queues back as they were."""
        if self.recorder in REGISTRY.recorders:
            REGISTRY.recorders.remove(self.recorder)
        self.recorder.end()
        REGISTRY.named.forget(self.recorder)

    def rows(self) -> StageRows | None:
        """Give what is new, to be written, and after `end` the rest; None if that is nothing."""
        rows = None
        with self._faults.guard("what stages did in the last half second"):
            rows = self._rows()
        return rows

    def _rows(self) -> StageRows | None:
        if self.recorder.when_used is not None:
            return None  # no stage and no queue so far
        inbox = self._inbox
        arrived = merged(inbox.take() if self.recorder.recording else inbox.close())
        rounds: list[Mapping[Hashable, Update]] = [{None: self.recorder.take()}, *arrived]
        return joined([self._merger.rows(updates) for updates in rounds])
