"""Runs of real ranks, one job for each number of ranks; the scenarios are in `training.py`."""

from pathlib import Path

import pytest

from tests.labs.ranks import launch

TRAINING = Path(__file__).with_name("training.py")


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-ranks")
    launch(TRAINING, folder, "accumulating", "dispatched", ranks=2)
    return folder


@pytest.fixture(scope="session")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three-ranks")
    scenarios = ("slow_input", "slow_backward", "missing_backward", "more_memory")
    launch(TRAINING, folder, *scenarios, ranks=3)
    return folder


@pytest.fixture(scope="session")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four-ranks")
    launch(TRAINING, folder, "rotating", ranks=4)
    return folder
