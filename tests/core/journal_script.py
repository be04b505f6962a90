"""Writes journals by hand and plays them to a ledger."""

from typing import Any

from traintrace.recording.books import LedgerRow
from traintrace.recording.journal import Segment
from traintrace.recording.ledger import Ledger
from traintrace.recording.steps import StepCapture


def capture() -> StepCapture:
    return StepCapture()


class Script:
    """Writes segments by hand: (advance, code) pairs on one clock."""

    def __init__(self, start: int = 1000) -> None:
        self.start = self.now = start
        self.ledger = Ledger(start)
        self.rows: list[LedgerRow] = []

    def play(self, *events: tuple[int, int], close: int | None = 0, part: bool = False) -> Any:
        """Let `advance` ns pass before each code; `close` ns later the segment ends."""
        entries: list[int] = []
        for advance, code in events:
            self.now += advance
            entries += [self.now, code]
        self.now += close or 0
        segment = Segment(tuple(entries), self.now, None if part else capture(), None)
        row = self.ledger.replay(segment)
        if row is not None:
            self.rows.append(row)
        return row
