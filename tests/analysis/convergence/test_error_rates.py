"""How often noise is called something, and how often what happened is found: the benchmark in small."""

import numpy as np
import pytest

from benchmarks.convergence.events import EVENTS
from benchmarks.convergence.noise import NOISES, draw
from benchmarks.convergence.runs import findings_of
from benchmarks.convergence.trials import play_event, play_noise

SOUGHT = tuple(name for name in EVENTS if name not in ("small spike", "stall"))


def test_fifty_runs_of_noise_have_at_most_one_finding() -> None:
    random = np.random.default_rng(7)
    found = [
        (noise, finding.kind)
        for number in range(50)
        for noise in [NOISES[number % len(NOISES)]]
        for finding in findings_of(draw(noise, 1_000, random))
    ]
    assert len(found) <= 1, found


@pytest.mark.parametrize("every", [1, 50])
def test_a_long_run_of_noise_is_quiet(every: int) -> None:
    random = np.random.default_rng(8)
    found = [findings_of(draw(noise, 10_000, random, every)) for noise in ("AR .9", "Student t3")]
    assert found == [[], []]


@pytest.mark.parametrize("event", SOUGHT)
def test_most_events_are_found_in_short_runs(event: str) -> None:
    assert play_event(event, 1_000, 1, 9).found >= 6


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES)
def test_of_a_thousand_runs_of_noise_one_in_a_hundred_has_a_finding_at_most(noise: str) -> None:
    assert play_noise(noise, 1_000, 1, 1_000).share <= 0.01


@pytest.mark.long
@pytest.mark.parametrize("event", [name for name in EVENTS if name != "small spike"])
def test_nine_in_ten_events_of_long_runs_are_found(event: str) -> None:
    assert play_event(event, 10_000, 1, 90).recall >= 0.9
