"""The runs of two ranks that several files look at."""

from pathlib import Path

import pytest

from tests.labs.ranks import Job


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("two-ranks"), Path(__file__).with_name("two_ranks.py"), 2)
