"""How often an even job is blamed, and a slow rank missed: simulated jobs, as `thresholds/ranks.py` quotes."""

import numpy as np
import pytest

from tests.labs.lockstep import Wait, noise, own_work, synchronise, window_of
from traintrace_analysis.ranks import compare_ranks

pytestmark = pytest.mark.long

# Ranks, and how many jobs of so many are simulated.
JOBS = {2: 500, 4: 500, 8: 500, 64: 100, 512: 15}


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
    ("cv", "ar", "spikes", "wait", "steps"),
    [
        (0.05, 0.5, 0.0, "gradient_sync", 100),
        (0.20, 0.9, 0.0, "gradient_sync", 40),
        (0.20, 0.5, 0.01, "gradient_sync", 100),
        (0.20, 0.9, 0.01, "gradient_sync", 100),
        (0.20, 0.5, 0.01, "backward", 100),
    ],
)
def test_an_even_job_is_blamed_in_one_report_of_a_hundred_at_most(
    ranks: int, cv: float, ar: float, spikes: float, wait: Wait, steps: int
) -> None:
    jobs = JOBS[ranks]
    rng = np.random.default_rng([ranks, steps, int(100 * cv), int(100 * ar), len(wait)])
    reports = [
        named(ranks, rng, cv=cv, ar=ar, spikes=spikes, wait=wait, steps=steps) for _ in range(jobs)
    ]
    assert sum(bool(rows) for rows, _ in reports) <= limit_of(jobs, 0.01)
    turns = sum(other for _, other in reports)
    if not spikes or ranks == 2:
        assert turns <= limit_of(jobs, 0.003)
    # All ranks pay for the spikes of each: 8 % of the time with 4 ranks and 12 % with 8, near the limit
    # of 10 %; 42 % with 64.
    if spikes and ranks >= 64:
        assert turns >= 0.95 * jobs


@pytest.mark.parametrize("ar", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("ranks", [8, 64, 512])
def test_a_rank_five_percent_slower_is_found_within_a_hundred_steps(ranks: int, ar: float) -> None:
    rng, jobs = np.random.default_rng([ranks, int(10 * ar)]), max(15, JOBS[ranks] // 3)
    reports = [named(ranks, rng, slow=0.05, ar=ar)[0] for _ in range(jobs)]
    found = sum(1 in rows for rows in reports) / jobs
    wrong = sum(bool(rows - {1}) for rows in reports)
    assert found >= (0.80 if ar == 0.5 else 0.95) - 2.0 / jobs
    assert wrong <= limit_of(jobs, 0.005)
