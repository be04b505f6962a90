"""Interval arithmetic against a grid of single nanoseconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traintrace_analysis.traces.intervals import Intervals

SIZE = 40
PAIRS = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=12)
EPOCH = 1_790_857_026_000_000_000
Pairs = list[tuple[int, int]]


def made(pairs: Pairs) -> Intervals:
    starts = np.array([EPOCH + start for start, _ in pairs], np.int64)
    return Intervals.union(starts, np.array([EPOCH + end for _, end in pairs], np.int64))


def grid(pairs: Pairs) -> set[int]:
    return {moment for start, end in pairs for moment in range(start, end)}


def moments(found: Intervals) -> set[int]:
    pairs = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return grid([(start - EPOCH, end - EPOCH) for start, end in pairs])


def is_canonical(found: Intervals) -> bool:
    return bool((found.starts < found.ends).all() and (found.ends[:-1] < found.starts[1:]).all())


@given(PAIRS)
def test_a_union_holds_each_moment_once(pairs: Pairs) -> None:
    found = made(pairs)
    assert is_canonical(found)
    assert moments(found) == grid(pairs)
    assert found.total_ns == len(grid(pairs))


@given(PAIRS, PAIRS)
def test_sets_combine_as_their_moments_do(a: Pairs, b: Pairs) -> None:
    for found, wanted in (
        (made(a) | made(b), grid(a) | grid(b)),
        (made(a) & made(b), grid(a) & grid(b)),
        (made(a) - made(b), grid(a) - grid(b)),
    ):
        assert is_canonical(found)
        assert moments(found) == wanted


@given(PAIRS, st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=5))
def test_what_lies_in_windows_is_counted(pairs: Pairs, windows: Pairs) -> None:
    ordered = [(min(w), max(w)) for w in windows]
    starts = np.array([EPOCH + start for start, _ in ordered], np.int64)
    ends = np.array([EPOCH + end for _, end in ordered], np.int64)
    inside = made(pairs).within(starts, ends).tolist()
    assert inside == [len(grid(pairs) & grid([window])) for window in ordered]
