"""The few ranks to which most late rounds are due, if chance does not explain it."""

import math
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit


def count_episodes(outside: Marks) -> Ints:
    """Count how often each row begins to be late; late rounds that follow each other count once."""
    starts = outside.copy()
    starts[:, 1:] &= ~outside[:, :-1]
    counted: Ints = starts.sum(axis=1)
    return counted


@dataclass(frozen=True, slots=True)
class Carriers:
    """Rows that most is lost to, beyond chance; no rows if the ranks take turns.

    Attributes:
        habit: True if each is late often enough, in both halves of the window.
    """

    rows: tuple[int, ...] = ()
    habit: bool = False


def find_carriers(outside: Marks, last: Ints, lost: Floats) -> Carriers:
    """Find the rows that most is lost to, if ranks that are equally often late would not bring it.

    At most a quarter of the rows, or one. The chance of so many occasions is binomial, bounded by
    its relative entropy (Chernoff 1952), over all sets of rows of that size.

    Args:
        outside: Ranks by rounds: where a rank is late.
        last: The slowest row of each round.
        lost: What each round loses to it, in ns.
    """
    rows = len(outside)
    if not lost.sum() > 0.0:
        return Carriers()
    carried = np.bincount(last, weights=lost, minlength=rows) / lost.sum()
    episodes = count_episodes(outside)
    # Ranks that are late in the same rounds share what is lost, so the occasions tell who they are.
    order = np.argsort(-episodes, kind="stable")
    for size in range(1, max(1, rows // 4) + 1):
        few = order[:size]
        # The least of them is late about as often as the others of them, or it is one of the many.
        if 2 * episodes[few[-1]] < episodes[few[0]]:
            break
        if carried[few].sum() < limit("carrier_share"):
            continue
        seldom = _log_chance(int(episodes[few].sum()), int(episodes.sum()), size / rows)
        if math.log(math.comb(rows, size)) + seldom >= math.log(limit("rank_false_alarm") / 4.0):
            break
        halves = [half.sum(axis=1) for half in np.array_split(outside[few], 2, axis=1)]
        lasting = np.minimum(*halves) >= outside[few].sum(axis=1) / 4.0
        often = episodes[few] >= limit("carrier_episodes")
        return Carriers(tuple(sorted(int(row) for row in few)), bool((lasting & often).all()))
    return Carriers()


def _log_chance(own: int, count: int, fair: float) -> float:
    """Bound the logarithm of the chance of `own` or more of `count` occasions at the share `fair`."""
    share = own / count
    if share <= fair:
        return 0.0
    entropy = share * math.log(share / fair)
    if share < 1.0:
        entropy += (1.0 - share) * math.log((1.0 - share) / (1.0 - fair))
    return -count * entropy
