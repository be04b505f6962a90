"""Epochs as occurrences: from the first row with an epoch's number to the last."""

from traintrace.recording.books import LedgerRow
from traintrace.recording.occurrences import Occurrence, OccurrenceQueue


class Epochs:
    """Follows the epoch numbers of completed steps; steps without one belong to no epoch.

    Attributes:
        ended: Epochs that are over.
    """

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._start_ns = self._end_ns = self._first_step = 0
        self.ended = OccurrenceQueue()

    def add(self, step: int, row: LedgerRow) -> None:
        """Note a completed step; another epoch's number than before ends that epoch."""
        epoch = row.capture.epoch
        if epoch is None:
            return
        if epoch != self._epoch:
            self.close()
            self._epoch, self._start_ns, self._first_step = epoch, row.start_ns, step
        self._end_ns = row.end_ns

    def close(self, suffix: str = "") -> None:
        """End the epoch that is open, if any, at the close of its last step so far."""
        if self._epoch is not None:
            length = self._end_ns - self._start_ns
            detail = f"{self._epoch}{suffix}"
            self.ended.add(Occurrence("epoch", self._start_ns, length, detail, self._first_step))
            self._epoch = None
