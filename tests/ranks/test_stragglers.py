"""One rank of several is slow in one phase: its own work says which rank and which phase, and its peers wait."""

from pathlib import Path

import pytest

from tests.labs.ranks import WAITING, excess_ms, launch, median_ms, named, ranks_of

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
TRIES = 3  # the machine is busy; the closest of these counts


def start(folder: Path, *phases: str, ranks: int, steps: int) -> Path:
    common = f"delay-ms={DELAY_MS}:steps={steps}"
    runs = [f"{phase}-{n}:phase={phase}:{common}" for phase in phases for n in range(TRIES)]
    for number in range(TRIES):
        runs.append(f"all-slow-{number}:phase=backward:rank=-1:{common}")
        runs.append(f"clean-{number}:phase=none:{common}")
    launch(SCRIPT, folder, *runs, ranks=ranks, timeout_s=240)
    return folder


def check_blame(folder: Path, phase: str) -> None:
    account = ACCOUNT.get(phase, phase)
    tries = [ranks_of(folder / f"{phase}-{number}") for number in range(TRIES)]
    for ranks in tries:
        waits = [median_ms(rank, *WAITING) for rank in ranks]
        culprit = waits.pop(1)
        assert culprit < min(waits)
        assert min(waits) >= 0.6 * DELAY_MS
    # All ranks compute on the same busy cores, and the slow one while the others sleep.
    closest = min(tries, key=lambda ranks: abs(excess_ms(ranks, 1, account) - DELAY_MS))
    assert 0.9 * DELAY_MS <= excess_ms(closest, 1, account) <= 1.1 * DELAY_MS
    assert 0.75 * DELAY_MS <= max(excess_ms(ranks, 1) for ranks in tries)
    blamed = [named(folder / f"{phase}-{number}") for number in range(TRIES)]
    assert {FINDING[phase]: [1]} in blamed
    for one in blamed:
        one.pop("ROTATING_STRAGGLER", None)  # on a busy machine every rank is held up now and then
        assert all(culprits == [1] for culprits in one.values()), blamed


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three-ranks")
    return start(folder, "input", "backward", ranks=3, steps=40)


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("four-ranks"), *FINDING, ranks=4, steps=60)


@pytest.mark.parametrize("phase", ["input", "backward"])
def test_a_slow_rank_is_told_by_its_own_work(three_ranks: Path, phase: str) -> None:
    check_blame(three_ranks, phase)


def test_ranks_that_are_all_slow_do_not_wait_and_none_is_blamed(three_ranks: Path) -> None:
    tries = [three_ranks / f"all-slow-{number}" for number in range(TRIES)]
    assert {} in [named(folder) for folder in tries]
    for rank in [rank for folder in tries for rank in ranks_of(folder)]:
        assert median_ms(rank, "backward") >= DELAY_MS
        assert median_ms(rank, *WAITING) < 0.6 * DELAY_MS


def test_nobody_is_blamed_where_nothing_is_wrong(three_ranks: Path) -> None:
    assert {} in [named(three_ranks / f"clean-{number}") for number in range(TRIES)]


@pytest.mark.long
@pytest.mark.parametrize("phase", FINDING)
def test_a_slow_phase_of_one_in_four_ranks_is_told_by_its_own_work(
    four_ranks: Path, phase: str
) -> None:
    check_blame(four_ranks, phase)
