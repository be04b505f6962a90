"""Every way to train that we trace runs the same recipe, and says what the recipe's own clocks saw."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from traintrace.testing.agreement import compare
from traintrace.testing.conformance import Outcome, from_json

ROOT = Path(__file__).parents[2]
INTEGRATIONS = (
    "plain:MARKED",
    "plain:AUTOMATIC",
    "plain:UNTOUCHED",
    "loops:ACCELERATE",
    "loops:FABRIC",
    "lightning_trainer:LIGHTNING",
    "lightning_trainer:PYTORCH_LIGHTNING",
    "huggingface:HUGGINGFACE",
)
# The same plugin in the same Trainer; the full product looks at both names.
IN_SHORT = tuple(name for name in INTEGRATIONS if name != "lightning_trainer:PYTORCH_LIGHTNING")
Suite = Callable[..., tuple[list[Outcome], str]]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Run the suite of one integration in a process of its own; once a module for each."""
    known: dict[tuple[str, ...], tuple[list[Outcome], str]] = {}

    def run(integration: str, *options: str) -> tuple[list[Outcome], str]:
        key = (integration, *options)
        if key not in known:
            results = tmp_path_factory.mktemp("conformance") / "results.json"
            process = subprocess.run(
                [
                    *(sys.executable, "-W", "ignore", "-m", "traintrace.testing.conformance"),
                    *(f"tests.conformance.{integration}", "--json", str(results), *options),
                ],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
            )
            assert results.exists(), process.stderr
            known[key] = from_json(json.loads(results.read_text("utf-8"))), process.stdout
            assert process.returncode == (not all(o.conforms for o in known[key][0]))
        return known[key]

    return run


@pytest.mark.parametrize("integration", IN_SHORT)
def test_every_pair_of_parameters_conforms(suite: Suite, integration: str) -> None:
    outcomes, tables = suite(integration)
    assert {outcome.clock for outcome in outcomes} == {"host", "device"}
    assert all(outcome.conforms for outcome in outcomes), tables


def test_integrations_agree_with_each_other(suite: Suite) -> None:
    suites = {integration: suite(integration)[0] for integration in IN_SHORT}
    assert compare(suites) == []


@pytest.mark.long
@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_every_combination_of_parameters_conforms(suite: Suite, integration: str) -> None:
    outcomes, tables = suite(integration, "--full")
    assert all(outcome.conforms for outcome in outcomes), tables


@pytest.mark.long
def test_integrations_agree_on_every_combination(suite: Suite) -> None:
    suites = {integration: suite(integration, "--full")[0] for integration in INTEGRATIONS}
    assert compare(suites) == []
