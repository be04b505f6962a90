"""The runs of two ranks that several files look at."""

from pathlib import Path

import pytest

from tests.labs.ranks import launch


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-ranks")
    launch(Path(__file__).with_name("two_ranks.py"), folder, ranks=2)
    return folder
