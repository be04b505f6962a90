"""Fixtures for tests that drive real Trainers; the recipe itself is in `tests.labs.huggingface`."""

from tests.labs.huggingface_fixtures import no_report, recipe, warm, with_report

__all__ = ["no_report", "recipe", "warm", "with_report"]
