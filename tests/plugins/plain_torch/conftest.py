"""Fixtures for hand-written loops; the model, the data and the reading are in `tests.labs.untouched`."""

from pathlib import Path

import pytest

from tests.labs.untouched import Untouched, make_untouched


@pytest.fixture
def untouched(tmp_path: Path) -> Untouched:
    return make_untouched(tmp_path)
