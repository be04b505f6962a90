"""Steps in which one rank keeps the others waiting, now this one and now that."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from traintrace_analysis.statistics import autocorrelation_time
from traintrace_analysis.step_window import Floats, Ints
from traintrace_analysis.thresholds import limit

_MAD_TO_SD: Final = 1.4826
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """Late rounds: those in which the slowest rank is far outside the ordinary spread.

    Attributes:
        late: Rounds in which a rank was late. last: the row that was slowest, in every round.
        lost: What the slowest rank adds in a late round above the usual slowest, in ns; else 0.
        late_share: Share of rounds that are late. by_row: share of the late rounds by row.
        by_chance: Share of rounds that would be late if ranks were late independently of each other.
        share: `lost` as a share of step time.
        carrier: Row that carries most of what is lost, beyond chance; None if it rotates.
    """

    late: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    last: Ints
    lost: Floats
    late_share: float
    by_chance: float
    by_row: Floats
    share: float
    carrier: int | None

    @property
    def rotates(self) -> bool:
        """True if it costs enough, often enough, and is not the odd hiccup that every machine has."""
        often = self.late_share >= limit("rotating_late_share")
        costs = self.share >= limit("rotating_share_warning")
        return self.carrier is None and often and costs and self._beyond_hiccups()

    def _beyond_hiccups(self) -> bool:
        """Tell whether ranks are late more often than one step in forty, or take turns at it."""
        rows = len(self.by_row)
        if self.late_share / rows >= limit("rotating_hiccup_rate"):
            return True
        known = len(self.late) / autocorrelation_time(self.late.astype(np.float64))
        error = math.sqrt(max(self.by_chance * (1.0 - self.by_chance), 1e-9) / known)
        return self.late_share - self.by_chance > 4.0 * error


def find_late_rounds(own: Floats, step: Floats) -> Rotation:
    """Find the rounds that a rank far outside the ordinary spread makes late.

    The spread is taken from the fast side, which no straggler touches; each rank's own pace is
    taken out first, so that a rank that is always slow is no part of it.
    """
    logs = np.log(np.maximum(own, 1.0))
    logs = logs - np.median(logs - np.median(logs, axis=0), axis=1, keepdims=True)
    middle = np.median(logs, axis=0)
    apart = logs - middle
    spread = _fast_side_spread(apart)
    fence = np.maximum(limit("rotating_outlier") * spread, math.log1p(limit("rotating_excess")))
    outside = apart > fence[:, None]
    late = outside.any(axis=0)
    last = np.where(outside, apart, -np.inf).argmax(axis=0)
    last = np.where(late, last, apart.argmax(axis=0))
    usual = np.exp(middle)
    rows = len(own)
    expected = _NORMAL.inv_cdf((rows - 0.375) / (rows + 0.25)) * float(np.median(spread))
    above = np.exp(apart[last, np.arange(own.shape[1])]) - math.exp(expected)
    lost = np.where(late, np.maximum(above, 0.0) * usual, 0.0)
    count = max(1, int(late.sum()))
    by_row = np.bincount(last[late], minlength=rows) / count
    return Rotation(
        late=late,
        last=last,
        lost=lost,
        late_share=float(late.mean()),
        by_chance=float(1.0 - np.exp(np.log1p(-np.minimum(outside.mean(axis=1), 0.999)).sum())),
        by_row=by_row,
        share=float(lost.sum() / step.sum()),
        carrier=_carrier(late, last, lost, rows),
    )


def _fast_side_spread(apart: Floats) -> Floats:
    """Give each row's standard deviation from what lies under the median, or the usual one if larger."""
    # What is not below counts as far below, so that the quantile of the rest sits at a known place.
    below = np.sort(np.where(apart < 0.0, -apart, np.inf), axis=1)
    count = np.isfinite(below).sum(axis=1)
    middle = below[np.arange(len(apart)), np.maximum(count - 1, 0) // 2]
    spread = np.where(count > 0, _MAD_TO_SD * middle, 0.0)
    return np.maximum(spread, float(np.median(spread)))


def _carrier(late: Floats, last: Ints, lost: Floats, rows: int) -> int | None:
    """Give the row that most is lost to, if ranks that are equally often late would not bring it.

    Late rounds that follow each other on one rank count once. The chance of so many is binomial,
    bounded by its relative entropy (Chernoff 1952), over all rows.
    """
    if not lost.sum() > 0.0:
        return None
    carried = np.bincount(last, weights=lost, minlength=rows) / lost.sum()
    row = int(carried.argmax())
    if carried[row] < limit("carrier_share"):
        return None
    places = np.flatnonzero(late)
    starts = np.ones(len(places), dtype=bool)
    starts[1:] = (np.diff(places) > 1) | (np.diff(last[places]) != 0)
    episodes = last[places][starts]
    count, own = len(episodes), int((episodes == row).sum())
    halves = [
        int(((last == row) & late)[half].sum()) for half in np.array_split(np.arange(len(late)), 2)
    ]
    if own < limit("carrier_episodes") or min(halves) < own / 4:
        return None
    share, fair = own / count, 1.0 / rows
    if share <= fair:
        return None
    entropy = share * math.log(share / fair)
    if share < 1.0:
        entropy += (1.0 - share) * math.log((1.0 - share) / (1.0 - fair))
    return row if rows * math.exp(-count * entropy) < limit("rank_false_alarm") / 4 else None
