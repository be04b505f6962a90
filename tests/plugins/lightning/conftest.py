"""Fixtures for tests that drive real Trainers; the recipes themselves are in `tests.labs.lightning`."""

from pathlib import Path

import pytest

from tests.labs.lightning import both, lab, let_lightning_warn, quiet, read

__all__ = ["both", "lab", "quiet", "read"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    let_lightning_warn(items, Path(__file__).parent)
