"""Values in a row far above what is usual: single ones are noise with heavy tails, several in a row hardly are.

The chance of `k` in a row above a size is that of one, times the chance that one follows another, to the power
k - 1. Both are counted in the run itself, above and below what is usual and without the row that is judged;
how often one follows another is counted at a smaller size, where noise that remembers itself persists more.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Floats, Marks

_SIZES: Final = (4.0, 7.0)  # spreads
_FOLLOWS: Final = 2.0
SHORTEST_ROW: Final = _SIZES[0]  # spreads; in no row is anything smaller


def lasting(above: Floats, below: Floats, chance: float) -> Marks:
    """Mark the rows that are too long for noise.

    Args:
        above: Values above their surroundings, in spreads.
        below: The same under them.
        chance: That noise alone has any such row; what is counted errs so far to the safe side that the sizes
            are not paid for.
    """
    marks = np.zeros(len(above), dtype=bool)
    for size in _SIZES:
        rows = [row for row in runs(above >= size, 0) if row[1] > row[0]]
        if not rows:
            continue
        many = int((above >= size).sum() + (below >= size).sum())
        for first, last in rows:
            length = last - first + 1
            once = (many - length + 1.0) / (2.0 * len(above))
            again = _follows(above, below, first, last)
            if len(above) * once * again ** (length - 1) <= chance:
                marks[first : last + 1] = True
    return marks


def _follows(above: Floats, below: Floats, first: int, last: int) -> float:
    """Give how often a value is followed by one that is as far off, without those around one row."""
    outside = np.ones(len(above), dtype=bool)
    outside[max(0, first - 8) : last + 9] = False
    large, pairs = 0, 0
    for side in (above, below):
        off = (side >= _FOLLOWS) & outside
        large += int(off.sum())
        pairs += int((off[1:] & off[:-1]).sum())
    return (pairs + 0.5) / (large + 1.0)


def runs(marks: Marks, joined: int) -> Sequence[tuple[int, int]]:
    """Give the first and last index of each stretch of marks; up to `joined` unmarked ones do not part it."""
    places = np.flatnonzero(marks)
    if not len(places):
        return ()
    parts = np.flatnonzero(np.diff(places) > joined + 1)
    firsts = np.concatenate([places[:1], places[parts + 1]])
    lasts = np.concatenate([places[parts], places[-1:]])
    return [(int(a), int(b)) for a, b in zip(firsts, lasts, strict=True)]
