"""One rank of several is slow in one phase: its own work says which rank and which phase, and its peers wait."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.labs.ranks import WAITING, Job, excess_ms, median_ms, named, ranks_of
from traintrace.facts import RankFacts

SCRIPT = Path(__file__).with_name("straggler_runs.py")
# The account that a fault in a phase of the example is in, and the finding that names it.
ACCOUNT = {"input": "input_wait"}
FINDING = {
    "input": "INPUT_STRAGGLER",
    "h2d": "H2D_STRAGGLER",
    "forward": "COMPUTE_STRAGGLER",
    "backward": "BACKWARD_STRAGGLER",
    "optimizer": "COMPUTE_STRAGGLER",
}
DELAY_MS = 20.0
BUSY = 0.05

Check = Callable[[Path], None]


def job_of(folder: Path, ranks: int, steps: int, *phases: str) -> Job:
    """Make a job that runs the example once for each fault."""
    common = f"delay-ms={DELAY_MS}:steps={steps}"
    runs = [f"{phase}:phase={phase}:{common}" for phase in phases]
    runs += [f"all-slow:phase=backward:rank=-1:{common}", f"clean:phase=none:{common}"]
    return Job(folder, SCRIPT, ranks, *runs)


def blames_rank_1(phase: str, apart: float = 0.1) -> Check:
    """Make the check; the delay that is found may differ from the real one by `apart` of it."""
    account = ACCOUNT.get(phase, phase)

    def check(folder: Path) -> None:
        ranks = ranks_of(folder)
        waits = [median_ms(rank, *WAITING) for rank in ranks]
        culprit = waits.pop(1)
        assert culprit < min(waits)
        assert min(waits) >= 0.6 * DELAY_MS
        # All ranks compute on the same busy cores, and the slow one while the others sleep.
        assert (1 - apart) * DELAY_MS <= excess_ms(ranks, 1, account) <= (1 + apart) * DELAY_MS
        assert 0.75 * DELAY_MS <= excess_ms(ranks, 1)
        blamed = named(folder)
        blamed.pop("ROTATING_STRAGGLER", None)  # every rank is held up now and then
        assert blamed == {FINDING[phase]: [1]}

    return check


def blames_nobody(folder: Path) -> None:
    ranks = ranks_of(folder)
    starved = [rank.rank for rank in ranks if waited_for_a_core(rank) >= BUSY]
    blamed = {rank for blamed in named(folder).values() for rank in blamed}
    if blamed and len(starved) == len(ranks):
        pytest.skip("other processes kept every rank from the cores")
    # A rank that other processes keep from the cores really is slower than its peers.
    assert blamed <= set(starved)


def waited_for_a_core(rank: RankFacts) -> float:
    """Give the share of its time that the training thread was ready to run and did not."""
    whole = sum(one.interval_ns or 0 for one in rank.process)
    return sum(one.run_queue_ns or 0 for one in rank.process) / max(1, whole)


def blames_nobody_of_the_slow(folder: Path) -> None:
    for rank in ranks_of(folder):
        assert median_ms(rank, "backward") >= DELAY_MS
        assert median_ms(rank, *WAITING) < 0.6 * DELAY_MS
    blames_nobody(folder)


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return job_of(tmp_path_factory.mktemp("three-ranks"), 3, 40, "input", "backward")


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return job_of(tmp_path_factory.mktemp("four-ranks"), 4, 60, *FINDING)


@pytest.mark.parametrize("phase", ["input", "backward"])
def test_a_slow_rank_is_told_by_its_own_work(three_ranks: Job, phase: str) -> None:
    three_ranks.check(phase, blames_rank_1(phase, apart=0.25))


def test_ranks_that_are_all_slow_do_not_wait_and_none_is_blamed(three_ranks: Job) -> None:
    three_ranks.check("all-slow", blames_nobody_of_the_slow)


def test_nobody_is_blamed_where_nothing_is_wrong(three_ranks: Job) -> None:
    three_ranks.check("clean", blames_nobody)


@pytest.mark.long
@pytest.mark.parametrize("phase", FINDING)
def test_a_slow_phase_of_one_in_four_ranks_is_told_by_its_own_work(
    four_ranks: Job, phase: str
) -> None:
    four_ranks.check(phase, blames_rank_1(phase))
