"""What is said to a run that waits for data: true of its steps, and advice that would work."""

from collections.abc import Callable, Sequence

import pytest

from traintrace.facts import EPOCH_FIRST, LoaderSetup, RankFacts, RunFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]


@pytest.fixture
def input_bound(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> Callable[..., Finding]:
    def build(waits: float | Sequence[float], *, workers: int = 0, cores: int = 8) -> Finding:
        count = 100 if isinstance(waits, float) else len(waits)
        loader = LoaderSetup(workers=workers, prefetch_factor=2 if workers else None)
        setup = Setup(device_kind="cpu", cpu_count=cores, loader=loader)
        rank = new_rank(count, setup=setup, ms={**cpu_step, "input_wait": waits})
        findings = analyse(new_run(rank)).findings
        return next(finding for finding in findings if finding.kind == "INPUT_BOUND")

    return build


def test_an_even_wait_is_told_as_an_average(input_bound: Callable[..., Finding]) -> None:
    why = input_bound(9.0).why
    assert why.startswith("Steps wait 8.99 ms of 20.3 ms for their batches, on average")
    assert "bursts" not in why


def test_bursts_are_told_with_median_and_tail(input_bound: Callable[..., Finding]) -> None:
    finding = input_bound([60.0 if k % 10 == 9 else 0.5 for k in range(200)])
    assert "of step time" in finding.headline
    assert "each step" not in finding.headline + finding.why
    assert "half of the steps lose under 50" in finding.why
    assert "one in twenty loses 6" in finding.why


def test_a_wide_interval_is_no_critical_finding(input_bound: Callable[..., Finding]) -> None:
    rare = [400.0 if k in (50, 120, 150) else 0.5 for k in range(200)]
    unsure, sure = input_bound(rare), input_bound(9.0)
    assert unsure.severity != "critical"
    assert sure.severity == "critical"


def test_bursts_get_a_buffer_or_cheaper_samples_and_not_one_worker(
    input_bound: Callable[..., Finding],
) -> None:
    action = input_bound([60.0 if k % 10 == 9 else 0.5 for k in range(200)]).action
    assert "A few batches are slow" in action
    assert "prefetch_factor=6" in action  # 60 ms at 11.3 ms of work a step


def test_waits_that_no_buffer_hides_are_not_promised_to_go(
    input_bound: Callable[..., Finding],
) -> None:
    waits = [1500.0 if k % 40 == 20 else 0.5 for k in range(400)]
    action = input_bound(waits).action
    assert "No reasonable number" in action
    assert "num_workers" not in action


@pytest.mark.parametrize("workers", [0, 2])
def test_cores_limit_only_samples_that_keep_a_cpu_busy(
    input_bound: Callable[..., Finding], workers: int
) -> None:
    action = input_bound(30.0, workers=workers, cores=2).action
    assert "If samples keep a CPU busy, the 2 cores cannot hide it" in action
    assert "If they wait for a disk or a network" in action


@pytest.mark.parametrize(("fetch_ms", "told"), [(9.3, False), (90.0, True)])
def test_first_fetches_are_mentioned_where_they_matter(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], fetch_ms: float, told: bool
) -> None:
    waits = [fetch_ms if k % 10 == 0 else 9.0 for k in range(100)]
    flags = {step: EPOCH_FIRST for step in range(1, 101, 10)}
    rank = new_rank(flags=flags, ms={**cpu_step, "input_wait": waits}, epochs=10)
    finding = next(f for f in analyse(new_run(rank)).findings if f.kind == "INPUT_BOUND")
    assert ("first fetches of 10 epochs" in finding.why) == told
