"""Sets of moments as disjoint intervals of integer nanoseconds: union, intersection, difference, exactly."""

from dataclasses import dataclass

import numpy as np

from traintrace_analysis.step_window import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Half-open intervals [start, end): ascending, disjoint, none empty, none touching the next.

    Attributes:
        starts, ends: Equally long, in ns.
    """

    starts: Ints
    ends: Ints

    @classmethod
    def union(cls, starts: Ints, ends: Ints) -> "Intervals":
        """Merge any intervals, in any order; empty and reversed ones hold no moment."""
        there = ends > starts
        starts, ends = starts[there], ends[there]
        if not len(starts):
            return cls.nothing()
        order = np.argsort(starts, kind="stable")
        starts, reached = starts[order], np.maximum.accumulate(ends[order])
        first = np.concatenate(([True], starts[1:] > reached[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls(starts[first], reached[last])

    @classmethod
    def nothing(cls) -> "Intervals":
        """Give the empty set."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def one(cls, start: int, end: int) -> "Intervals":
        """Give a single interval; the empty set if it is empty."""
        return cls.union(np.array([start], np.int64), np.array([end], np.int64))

    @property
    def total_ns(self) -> int:
        """Length of the set."""
        return int((self.ends - self.starts).sum())

    def __or__(self, other: "Intervals") -> "Intervals":
        """Give the moments that are in either."""
        return Intervals.union(
            np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends))
        )

    def __and__(self, other: "Intervals") -> "Intervals":
        """Give the moments that are in both."""
        return self._where(other, weight=1, level=2)

    def __sub__(self, other: "Intervals") -> "Intervals":
        """Give the moments that are here and not in the other."""
        return self._where(other, weight=-2, level=1)

    def _where(self, other: "Intervals", weight: int, level: int) -> "Intervals":
        """Sweep over all borders: here counts 1, the other `weight`; give where the sum is `level`."""
        if not len(self.starts) or not len(other.starts):
            return self if weight < 0 else Intervals.nothing()
        times = np.concatenate((self.starts, self.ends, other.starts, other.ends))
        here, there = np.ones(len(self.starts), np.int64), np.full(len(other.starts), weight)
        steps = np.concatenate((here, -here, there, -there))
        order = np.argsort(times, kind="stable")
        times, sums = times[order], np.cumsum(steps[order])
        # Between two borders at one moment a sum means nothing; such pieces are empty and drop out.
        pieces = np.flatnonzero(sums[:-1] == level)
        return Intervals.union(times[pieces], times[pieces + 1])

    def within(self, starts: Ints, ends: Ints) -> Ints:
        """Give how many ns of the set lie in each of the windows [start, end)."""
        inside: Ints = self._until(ends) - self._until(starts)
        return inside

    def _until(self, moments: Ints) -> Ints:
        """Give how many ns of the set lie before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        lengths = self.ends - self.starts
        before = np.concatenate(([0], np.cumsum(lengths)))
        index = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(index - 1, 0)
        open_ns = np.minimum(np.maximum(moments - self.starts[last], 0), lengths[last])
        until: Ints = np.where(index > 0, before[last] + open_ns, 0)
        return until
