"""Steps in which a rank keeps the others waiting that does not always: now this one and now that, or one of them."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from traintrace_analysis.ranks.carriers import Carriers, count_episodes, find_carriers
from traintrace_analysis.statistics import MAD_TO_SD, estimate_ratio
from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit

_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """Late rounds: those in which the slowest rank is far outside the ordinary spread.

    Attributes:
        late: Rounds in which a rank was late. last: the row that was slowest, in every round.
        lost: What the slowest rank adds in a late round above the usual slowest, in ns; else 0.
        excess: The same for every row that is late in a round, ranks by rounds.
        late_share: Share of rounds that are late. by_row: share of the late rounds by row.
        by_chance: Share of rounds that would be late if ranks were late independently of each other.
        share: `lost` as a share of step time. seldom_chance: chance that the true share reaches the
            limit for rounds that are seldom late.
        occasions: How often a rank began to be late.
        carriers: Rows that carry most of what is lost, beyond chance; none if it rotates.
    """

    late: Marks
    last: Ints
    lost: Floats
    excess: Floats
    late_share: float
    by_chance: float
    by_row: Floats
    share: float
    seldom_chance: float
    occasions: int
    carriers: Carriers

    @property
    def rotates(self) -> bool:
        """True if it costs enough, however seldom each rank is late, and no few ranks carry it."""
        return not self.carriers.rows and self.costs

    @property
    def costs(self) -> bool:
        """True if late rounds cost enough: a little if there are many, more if they are few."""
        if self.occasions < limit("carrier_episodes"):
            return False
        if self.late_share >= limit("rotating_late_share"):
            return self.share >= limit("rotating_share_warning")
        return self.seldom_chance >= limit("rotating_seldom_confidence")


def find_late_rounds(
    own: Floats, step: Floats, independent: float, waits: Floats | None = None
) -> Rotation:
    """Find the rounds that a rank far outside the ordinary spread makes late.

    The spread is taken from the fast side, which no straggler touches; each rank's own pace is
    taken out first, so that a rank that is always slow is no part of it. All ranks together pay the
    slowest of each round, so what counts is how far it lies beyond the slowest that this spread
    brings forth, whether each rank is late in one step of four or of four hundred.

    Args:
        own: Own work, ranks by rounds, in ns.
        step: What each round took, in ns.
        independent: How many independent rounds the series is worth.
        waits: How long each rank waited, if that has to confirm who was late: who comes last waits
            less than the others by about what it did more.
    """
    logs = np.log(np.maximum(own, 1.0))
    logs = logs - np.median(logs - np.median(logs, axis=0), axis=1, keepdims=True)
    apart = logs - np.median(logs, axis=0)
    if len(own) == 2:  # their median lies half way
        apart = 2.0 * apart
    rows = len(own)
    spread = _fast_side_spread(apart)
    slowest = _NORMAL.inv_cdf((rows - 0.375) / (rows + 0.25)) * float(np.median(spread))
    reach = np.maximum(_reach(rows, independent) * spread, math.log1p(limit("rotating_excess")))
    outside = apart > reach[:, None]
    above = np.maximum(np.exp(apart) - math.exp(slowest), 0.0) * np.exp(logs - apart)
    if waits is not None:
        outside &= np.median(waits, axis=0) - waits >= limit("waits_less") * above
    excess = np.where(outside, above, 0.0)
    late = outside.any(axis=0)
    last = np.where(late, np.where(outside, apart, -np.inf).argmax(axis=0), apart.argmax(axis=0))
    lost = excess.max(axis=0)
    ratio = estimate_ratio(lost, step)
    return Rotation(
        late=late,
        last=last,
        lost=lost,
        excess=excess,
        late_share=float(late.mean()),
        by_chance=float(1.0 - np.exp(np.log1p(-np.minimum(outside.mean(axis=1), 0.999)).sum())),
        by_row=np.bincount(last[late], minlength=rows) / max(1, int(late.sum())),
        share=float(lost.sum() / step.sum()),
        seldom_chance=(
            0.0 if ratio is None else ratio.chance_at_least(limit("rotating_seldom_share"))
        ),
        occasions=int(count_episodes(outside).sum()),
        carriers=find_carriers(outside, last, lost),
    )


def _reach(rows: int, independent: float) -> float:
    """Give the standard deviations beyond which the slowest of so many ranks seldom lies by chance."""
    each = -math.expm1(math.log1p(-limit("rotating_outlier")) / rows)
    # The spread itself is known only so well.
    error = math.sqrt(0.5 / (independent * max(1, rows - 1)))
    return _NORMAL.inv_cdf(1.0 - each) * (1.0 + 2.0 * error)


def _fast_side_spread(apart: Floats) -> Floats:
    """Give each row's standard deviation from what lies under the median, or the usual one if larger."""
    # What is not below counts as far below, so that the quantile of the rest sits at a known place.
    below = np.sort(np.where(apart < 0.0, -apart, np.inf), axis=1)
    count = np.isfinite(below).sum(axis=1)
    middle = below[np.arange(len(apart)), np.maximum(count - 1, 0) // 2]
    spread = np.where(count > 0, MAD_TO_SD * middle, 0.0)
    return np.maximum(spread, float(np.median(spread)))
