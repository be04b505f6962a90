"""Two machines, and the place where they publish."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.nodes import Machine, two_machines

Machines = tuple[Machine, Machine]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with two_machines(tmp_path) as machines:
        yield machines


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that all machines reach; and a disk for whoever reads it later."""
    (tmp_path / "reader").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "reader"))
    return tmp_path / "published"
