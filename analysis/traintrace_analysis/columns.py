"""Turn a rank's recorded columns into NumPy rows of an aligned window."""

from collections.abc import Sequence

import numpy as np

from traintrace.accounts import PHASES, STEP_ACCOUNT_NAMES
from traintrace.facts import ABANDONED, FLOPS_COUNTED, PROFILED, RankFacts
from traintrace.store.column import MISSING, Column
from traintrace_analysis.step_window import Floats, Ints

MEMORY_COLUMNS: tuple[str, ...] = ("peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes")
REQUIRED_COLUMNS: tuple[str, ...] = (
    "step",
    "start_ns",
    "open_ns",
    "duration_ns",
    "flags",
    "samples",
    "tokens",
    "padded_tokens",
    *(f"{name}_ns" for name in STEP_ACCOUNT_NAMES),
    *(f"{name}_device_ns" for name in PHASES),
    *MEMORY_COLUMNS,
    "gc_ns",
)
"""Columns of the `steps` table that `analyse` reads; one that is missing counts as not measured."""


def step_ids(rank: RankFacts) -> Ints:
    """Give the ids of all steps that the rank has rows of, ascending."""
    return as_integers(rank.columns.get("step", ()))


def counted_step_ids(rank: RankFacts) -> Ints:
    """Give the ids of the rank's completed steps, ascending, without those that were abandoned."""
    ids, flags = step_ids(rank), rank.columns.get("flags")
    if flags is None or not len(ids):
        return ids
    counted: Ints = ids[(as_integers(flags) & ABANDONED) == 0]
    return counted


def common_steps(ranks: Sequence[RankFacts], window_steps: int) -> Ints:
    """Give the latest `window_steps` step ids that every one of `ranks` completed.

    Steps that a measurement slowed down on any rank are left out, unless there are no others.
    """
    common: Ints = np.empty(0, dtype=np.int64)
    for position, rank in enumerate(ranks):
        ids = counted_step_ids(rank)
        if position == 0:
            common = ids
        elif not np.array_equal(common, ids):
            common = np.intersect1d(common, ids, assume_unique=True)
    slowed = [_slowed_step_ids(rank) for rank in ranks]
    if any(map(len, slowed)):
        usual = np.setdiff1d(common, np.concatenate(slowed))
        common = usual if len(usual) else common
    return common[-window_steps:]


def _slowed_step_ids(rank: RankFacts) -> Ints:
    """Give the steps that a profiler or a count of operations slowed down.

    The step after a profile is one of them: its row begins with what ending the profile took.
    """
    ids, flags = step_ids(rank), rank.columns.get("flags")
    if flags is None or not len(ids):
        return ids[:0]
    bits = as_integers(flags)
    profiled = ids[(bits & PROFILED) != 0]
    slowed: Ints = np.union1d(ids[(bits & FLOPS_COUNTED) != 0], [*profiled, *profiled + 1])
    return slowed.astype(np.int64)


class Aligner:
    """Picks the steps of one window out of each rank's columns.

    Attributes:
        ranks: The participating ranks, one per matrix row.
        steps: The step ids that become the columns.
    """

    def __init__(self, ranks: Sequence[RankFacts], steps: Ints) -> None:
        self.ranks = ranks
        self.steps = steps
        self._places = [np.searchsorted(step_ids(rank), steps) for rank in ranks]

    def floats(self, column: str) -> Floats | None:
        """Give ranks by steps with NaN for None; None if no rank has a value in the window."""
        matrix = np.full((len(self.ranks), len(self.steps)), np.nan)
        for row, (rank, places) in enumerate(zip(self.ranks, self._places, strict=True)):
            values = rank.columns.get(column)
            if values is not None and len(places):
                picked = _pick(as_integers(values), places)
                matrix[row] = np.where(picked == MISSING, np.nan, picked)
        return None if np.isnan(matrix).all() else matrix

    def integers(self, column: str) -> Ints:
        """Give ranks by steps of a column that is never None; 0 where the column is missing."""
        matrix = np.zeros((len(self.ranks), len(self.steps)), dtype=np.int64)
        for row, (rank, places) in enumerate(zip(self.ranks, self._places, strict=True)):
            values = rank.columns.get(column)
            if values is not None and len(places):
                matrix[row] = _pick(as_integers(values), places)
        return matrix

    def spans(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Give the spans of the window's rows by account: before the step, and inside it."""
        before: dict[str, Floats] = {}
        inside: dict[str, Floats] = {}
        shape = (len(self.ranks), len(self.steps))
        for row, rank in enumerate(self.ranks):
            if not len(self.steps) or not rank.spans:
                continue
            steps = np.array([span.step for span in rank.spans], dtype=np.int64)
            places = np.searchsorted(self.steps, steps)
            there = places < len(self.steps)
            there[there] = self.steps[places[there]] == steps[there]
            for number in np.flatnonzero(there):
                span = rank.spans[int(number)]
                side = inside if span.inside else before
                if span.account not in side:
                    side[span.account] = np.zeros(shape)
                side[span.account][row, places[number]] += span.ns
        return before, inside


def _pick(values: Ints, places: Ints) -> Ints:
    """Cut out of a long column what the window needs."""
    part = values[int(places[0]) : int(places[-1]) + 1]
    return part if len(part) == len(places) else part[places - places[0]]


def as_integers(values: Sequence[int | None]) -> Ints:
    """Give a column as an array, `MISSING` for None; moments keep every digit."""
    if isinstance(values, Column):
        return np.array(values.values, dtype=np.int64)
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
