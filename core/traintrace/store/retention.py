"""Retention: a run of any length keeps its disk bounded. Old raw rows become blocks; totals stay exact.

Raw rows kept: the first ones, the latest ones, and a range that was asked for. What lies between is
folded, block by block, into count, sum, sum of squares, minimum, maximum and a log-bin histogram per account.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from traintrace import accounts, facts
from traintrace.store.writer import RankWriter

KEEP_FIRST: Final = 1_000
KEEP_LAST: Final = 200_000
BLOCK: Final = 1_000
# Eight bins an octave: two values in one bin differ by less than 9 %.
BINS_PER_OCTAVE: Final = 8

_FOLDED: Final = ("duration", *accounts.STEP_ACCOUNT_NAMES)


class Retention:
    """Folds old rows of one rank's file; called by the drain after a flush."""

    def __init__(
        self,
        writer: RankWriter,
        keep_first: int = KEEP_FIRST,
        keep_last: int = KEEP_LAST,
        block: int = BLOCK,
        keep_steps: tuple[int, int] | None = None,
    ) -> None:
        self._writer = writer
        self._keep_last = keep_last
        self._block = block
        self._keep_steps = keep_steps
        self._next = keep_first + 1

    def apply(self, last_step: int) -> None:
        """Fold every whole block that has left the window of raw rows and holds no step to be kept."""
        while self._next + self._block - 1 <= last_step - self._keep_last:
            last = self._next + self._block - 1
            if not self._is_kept(self._next, last):
                self._fold(self._next, last)
            self._next = last + 1

    def _is_kept(self, first: int, last: int) -> bool:
        return self._keep_steps is not None and (
            first <= self._keep_steps[1] and self._keep_steps[0] <= last
        )

    def _fold(self, first: int, last: int) -> None:
        columns = ", ".join(f"{name}_ns" for name in _FOLDED)
        span = (first, last)
        rows = self._writer.run(
            f"SELECT {columns} FROM steps "
            f"WHERE step BETWEEN ? AND ? AND flags & {facts.ABANDONED} = 0",
            span,
        )
        statements: list[tuple[str, Sequence[Any]]] = []
        for name, values in zip(_FOLDED, zip(*rows, strict=True), strict=False):
            measured = [value for value in values if value is not None]
            if measured:
                statements.append(
                    ("INSERT INTO blocks VALUES (?,?,?,?,?,?,?,?,?)", _block(*span, name, measured))
                )
        for table in ("steps", "spans", "regions", "scalars"):
            statements.append((f"DELETE FROM {table} WHERE step BETWEEN ? AND ?", span))
        self._writer.run_all(statements)


def _block(first: int, last: int, name: str, values: Sequence[int]) -> tuple[Any, ...]:
    histogram = Counter(
        round(math.log2(value) * BINS_PER_OCTAVE) if value > 0 else -1 for value in values
    )
    return (
        first,
        last,
        name,
        len(values),
        sum(values),
        float(sum(value * value for value in values)),
        min(values),
        max(values),
        json.dumps(sorted(histogram.items())),
    )
