"""Which interval of a gain holds the truth: that of the ratio estimator, or of a block bootstrap.

Simulated jobs of four ranks, one 30 % slower, whose analysis predicts what its repair would win; the
truth is what many steps without the fault take. Short series with a long memory tell a bootstrap too
little: its blocks hold no more than one series shows.
"""

import numpy as np
import pytest

from tests.labs.lockstep import Floats, noise, own_work, window_of
from traintrace_analysis.ranks import compare_ranks
from traintrace_analysis.statistics import estimate_ratio

pytestmark = pytest.mark.long

SLOWER = 1.3
JOBS = 150
REPLICATES = 400


def lockstep(factors: Floats) -> dict[str, Floats]:
    """Give the accounts of ranks that wait for the slowest in every step, all after their backward."""
    ranks, steps = factors.shape
    own = own_work(ranks, steps, factors)
    whole = np.sum(list(own.values()), axis=0)
    return {**own, "gradient_sync": whole.max(axis=0) - whole}


def slow(factors: Floats) -> Floats:
    slowed = factors.copy()
    slowed[1] *= SLOWER
    return slowed


def true_gain(rng: np.random.Generator, ar: float) -> float:
    even = noise(rng, (4, 60_000), ar=ar)
    return float(slow(even).max(axis=0).sum() / even.max(axis=0).sum())


def predict(rng: np.random.Generator, steps: int, ar: float) -> tuple[Floats, Floats] | None:
    """Give each round's time as it was and as it is predicted; None if nobody is blamed."""
    factors = slow(noise(rng, (4, steps), ar=ar))
    comparison = compare_ranks(window_of(lockstep(factors)))
    assert comparison is not None
    if len(comparison.stragglers) != 1:
        return None
    removed = np.zeros_like(comparison.own)
    removed[comparison.stragglers[0].rows] = comparison.stragglers[0].removed
    return comparison.own.max(axis=0), (comparison.own - removed).max(axis=0)


def automatic_block(series: Floats) -> int:
    """Give the block of the circular bootstrap (Politis and White 2004, corrected 2009)."""
    count = len(series)
    centred = series - series.mean()
    most = int(np.ceil(np.sqrt(count))) + 5
    lags = np.array([centred[: count - k] @ centred[k:] for k in range(most + 6)]) / count
    quiet = np.abs(lags[1:] / lags[0]) < 2.0 * np.sqrt(np.log10(count) / count)
    first = next((m for m in range(most) if quiet[m : m + 5].all()), most)
    reach = max(1, min(2 * first, most + 5))
    places = np.arange(1, reach + 1)
    weights = np.clip(2.0 * (1.0 - places / reach), 0.0, 1.0)  # a flat top
    slope = 2.0 * float((weights * places * lags[places]).sum())
    level = lags[0] + 2.0 * float((weights * lags[places]).sum())
    block = (1.5 * slope**2 / max(level, 1e-12) ** 2 * count) ** (1.0 / 3.0)
    return int(np.clip(np.ceil(block), 1, min(3.0 * np.sqrt(count), count / 3.0)))


def bootstrap(rng: np.random.Generator, now: Floats, then: Floats) -> tuple[float, float]:
    """Give the percentile interval of sum(now) / sum(then) over circular blocks."""
    count = len(now)
    block = automatic_block(now - now.sum() / then.sum() * then)
    starts = rng.integers(count, size=(REPLICATES, -(-count // block)))
    ratios = np.ones(REPLICATES)
    for series, power in ((now, 1.0), (then, -1.0)):
        sums = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
        ratios *= (sums[starts + block] - sums[starts]).sum(axis=1) ** power
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize(("ar", "steps"), [(0.0, 100), (0.5, 100), (0.5, 300), (0.9, 1000)])
def test_the_interval_of_a_gain_holds_the_truth_more_often_than_a_bootstrap_s(
    ar: float, steps: int
) -> None:
    rng = np.random.default_rng([int(10 * ar), steps])
    truth = true_gain(rng, ar)
    given = held = held_by_bootstrap = 0
    for _ in range(JOBS):
        predicted = predict(rng, steps, ar)
        ratio = None if predicted is None else estimate_ratio(*predicted)
        interval = None if ratio is None else ratio.interval()
        if predicted is None or interval is None:
            continue
        given += 1
        held += interval[0] <= truth <= interval[1]
        low, high = bootstrap(rng, *predicted)
        held_by_bootstrap += low <= truth <= high
    # 200 jobs of each kind: held in 90 to 95 %, by the bootstrap in 75 to 82 %.
    assert given > JOBS // 3
    assert held >= 0.92 * given - 3.0 * float(np.sqrt(given * 0.92 * 0.08))
    assert held - held_by_bootstrap >= 0.04 * given
