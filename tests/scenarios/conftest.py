"""One build of every scenario, shared by all tests."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.builds import Builds

# Every rank's file is forced to the disk, as it has to be; in memory that costs nothing.
_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def builds() -> Iterator[Builds]:
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="traintrace-scenarios-", dir=place) as root:
        yield Builds(Path(root))
