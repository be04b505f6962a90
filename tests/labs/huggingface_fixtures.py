"""Fixtures for tests that drive real Trainers; a conftest imports those that it wants."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.labs.huggingface import NO_SLEEPS, Net, Recipe, Truth
from traintrace_huggingface import opening


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Recipe]:
    before = dict(os.environ)
    yield Recipe(tmp_path)
    os.environ.clear()  # transformers 4.57 leaves variables behind that make later models compile
    os.environ.update(before)


@pytest.fixture(autouse=True)
def no_report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # The report has tests of its own; here only those who ask for it wait for it.
    if "with_report" not in request.fixturenames:
        monkeypatch.setattr(opening, "_report", lambda run, print_report: None)


@pytest.fixture
def with_report() -> None:
    """Let runs end with their report."""


@pytest.fixture(scope="session", autouse=True)
def warm() -> Iterator[None]:
    """Let torch make its first-call set-up before anything is timed, and keep collections short.

    `Trainer.train` collects garbage, and so may any moment that is timed: with all that is imported here
    a full collection takes 0.3 s.
    """
    model = Net(Truth(), NO_SLEEPS)
    model(torch.stack([torch.ones(4), torch.ones(4)]), torch.ones(2))["loss"].backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
