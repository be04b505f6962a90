"""How often an even job is blamed, and a slow rank missed: simulated jobs, as `thresholds/ranks.py` quotes."""

import numpy as np
import pytest

from tests.labs.lockstep import Floats, Wait, noise, own_work, synchronise, window_of
from traintrace_analysis.ranks import compare_ranks
from traintrace_analysis.replay import CriticalPath
from traintrace_analysis.statistics import estimate_ratio

pytestmark = pytest.mark.long

# Ranks, and how many jobs of so many are simulated.
JOBS = {2: 600, 4: 600, 8: 600, 64: 150, 512: 30}


def named(ranks: int, rng: np.random.Generator, *, slow: float = 0.0, steps: int = 100,
          wait: Wait = "gradient_sync", cv: float = 0.05, ar: float = 0.0, spikes: float = 0.0
) -> tuple[set[int], bool]:  # fmt: skip
    """Give the rows that one simulated job blames, and if it sees ranks taking turns."""
    own = own_work(ranks, steps, noise(rng, (ranks, steps), cv=cv, ar=ar, spikes=spikes))
    for part in own.values():
        part[1] *= 1.0 + slow
    comparison = compare_ranks(window_of(synchronise(own, wait=wait)))
    assert comparison is not None
    rows = {int(row) for one in comparison.stragglers for row in one.rows}
    return rows, comparison.rotation.rotates or comparison.load is not None


def limit_of(jobs: int, rate: float) -> float:
    """Give the most that `rate` brings forth in so many jobs, but for chance (three errors)."""
    return jobs * rate + 3.0 * float(np.sqrt(jobs * rate)) + 1.0


@pytest.mark.parametrize("ranks", JOBS)
@pytest.mark.parametrize(
    ("cv", "ar", "spikes", "wait"),
    [
        (0.05, 0.5, 0.0, "gradient_sync"),
        (0.20, 0.5, 0.01, "gradient_sync"),
        (0.20, 0.9, 0.01, "gradient_sync"),
        (0.20, 0.5, 0.01, "backward"),
    ],
)
def test_an_even_job_is_blamed_in_one_report_of_a_hundred_at_most(
    ranks: int, cv: float, ar: float, spikes: float, wait: Wait
) -> None:
    rng, jobs = np.random.default_rng(ranks), JOBS[ranks]
    reports = [named(ranks, rng, cv=cv, ar=ar, spikes=spikes, wait=wait) for _ in range(jobs)]
    assert sum(bool(rows) for rows, _ in reports) <= limit_of(jobs, 0.01)
    # Many ranks with rare long steps do lose much of their time to them, each time on another.
    if ranks <= 8 or not spikes:
        assert sum(other for _, other in reports) <= limit_of(jobs, 0.003)


@pytest.mark.parametrize("ar", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("ranks", [8, 64, 512])
def test_a_rank_five_percent_slower_is_found_within_a_hundred_steps(ranks: int, ar: float) -> None:
    rng, jobs = np.random.default_rng(ranks), max(30, JOBS[ranks] // 3)
    reports = [named(ranks, rng, slow=0.05, ar=ar)[0] for _ in range(jobs)]
    found = sum(1 in rows for rows in reports) / jobs
    wrong = sum(bool(rows - {1}) for rows in reports)
    assert found >= (0.80 if ar == 0.5 else 0.95)
    assert wrong <= limit_of(jobs, 0.005)


@pytest.mark.parametrize("ar", [0.0, 0.5, 0.9])
def test_the_interval_of_a_gain_holds_the_truth(ar: float) -> None:
    """Truth: what many steps without the fault take. Short series with a long memory have none."""

    def seconds(own: dict[str, Floats]) -> float:
        return float(sum(part[0].sum() for part in synchronise(own, link_ms=0.0).values()))

    def job(rng: np.random.Generator, steps: int) -> CriticalPath | None:
        own = own_work(4, steps, noise(rng, (4, steps), ar=ar))
        for part in own.values():
            part[1] *= 1.3
        comparison = compare_ranks(window_of(synchronise(own)))
        assert comparison is not None
        if not comparison.stragglers:
            return None
        removed = np.zeros_like(comparison.own)
        (one,) = comparison.stragglers
        removed[one.rows] = one.removed
        return CriticalPath(comparison.own, (comparison.own - removed).max(axis=0))

    rng = np.random.default_rng(11)
    even = own_work(4, 20_000, noise(rng, (4, 20_000), ar=ar))
    healthy = seconds(even)
    for part in even.values():
        part[1] *= 1.3
    truth = seconds(even) / healthy
    covered = given = 0
    for _ in range(200):
        path = job(rng, 1000 if ar == 0.9 else 300)
        ratio = None if path is None else estimate_ratio(path.own.max(axis=0), path.shared)
        interval = None if ratio is None else ratio.interval()
        if interval is not None:
            given += 1
            covered += interval[0] <= truth <= interval[1]
    assert given > 150
    assert covered >= 0.93 * given - 3.0 * float(np.sqrt(given * 0.93 * 0.07))
