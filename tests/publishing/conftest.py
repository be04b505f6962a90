"""What tests of publishing get: a rank's file on a disk of its own, and a place to publish it."""

from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from tests.labs.published import WrittenRank
from traintrace.publishing.location import location
from traintrace.publishing.place import Location


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    yield tmp_path / "tmp"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def rank(tmp_path: Path) -> WrittenRank:
    (tmp_path / "spool").mkdir()
    rank = WrittenRank(tmp_path / "spool")
    rank.flush()
    return rank


@pytest.fixture(params=["path", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return location(tmp_path / "run" if request.param == "path" else "memory://runs/run")
