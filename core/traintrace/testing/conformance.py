"""Run one recipe of known delays through an integration, and hold the run against the truth.

    python -m traintrace.testing.conformance my_plugin.conformance:MINE
    python -m traintrace.testing.conformance my_plugin.conformance:MINE --full --json results.json

Exit codes: 0 it conforms; 1 it does not, the table says where; 2 usage.
"""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from traintrace import open_run
from traintrace.registry import REGISTRY
from traintrace.testing.checking import COLUMNS, Row, check
from traintrace.testing.covering import full_product, pairwise
from traintrace.testing.device_times import run_on_device
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Delays, Parts, Recipe
from traintrace.testing.table import table_of, worst_of
from traintrace.testing.truth import Truth

PARAMETERS: Final[Mapping[str, Sequence[Any]]] = {
    "accumulation": (1, 2, 4, 8),
    "partial": (True, False),  # whether the last group of an epoch is short
    "epochs": (1, 2),
    "loading": ((0, False), (2, False), (2, True)),  # workers, and whether they persist
    "evaluate_every": (1, None),
    "checkpoint_every": (2, None),
}
# Long enough to be told from each other and from noise; there are many recipes.
_DELAYS: Final = Delays(
    data=2.5, transfer=1.5, forward=2, backward=2.5, optimizer=3, evaluation=1.5, checkpoint=3.5
)
# Accumulations that are run on the simulated device; all of them in the full product.
ON_DEVICE: Final = (1, 4)
# A busy machine puts time between a seam and the recipe's clock; it never takes any away.
TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """One recipe, run and checked.

    Attributes:
        clock: "host" where delays are slept, "device" where they are launched on the simulated device.
        tries: Runs that it took. Only "too much" is tried again; of each account the closest counts.
    """

    integration: str
    recipe: Recipe
    rows: Sequence[Row]
    tries: int = 1
    clock: Literal["host", "device"] = "host"

    @property
    def conforms(self) -> bool:
        """Say whether every rule holds."""
        return all(row.is_right for row in self.rows)


def recipes(*, full: bool = False) -> list[Recipe]:
    """Give the recipes of the suite: every pair of values once at least, or all combinations."""
    choose = full_product if full else pairwise
    return [_recipe(**combination) for combination in choose(PARAMETERS)]


def _recipe(accumulation: int, partial: bool, loading: tuple[int, bool], **others: Any) -> Recipe:
    workers, persistent = loading
    # Two full groups where those are short; a few updates where there are no groups.
    batches = max(4, min(8, 2 * accumulation)) + partial
    return Recipe(
        accumulation, batches, workers=workers, persistent=persistent, delays=_DELAYS, **others
    )


def run_once(integration: Integration, recipe: Recipe) -> list[Row]:
    """Train once in a temporary folder and check the run."""
    recipe, truth = integration.adapted(recipe), Truth()
    parts = Parts(recipe, truth)
    with tempfile.TemporaryDirectory() as folder:
        with parts.watched():
            run_folder = integration.train(recipe, parts, Path(folder))
        (rank,) = open_run(run_folder).facts(COLUMNS).ranks
    return check(rank, truth, recipe, integration)


def run_recipe(integration: Integration, recipe: Recipe) -> Outcome:
    """Train and check; again while something is "too much" and nothing else is wrong."""
    rows: list[Row] = []
    for tries in range(1, TRIES + 1):
        fresh = run_once(integration, recipe)
        wrong = [row for row in fresh if not row.is_right]
        if any(row.verdict != "too much" for row in wrong):
            return Outcome(integration.name, recipe, fresh, tries)
        rows = [_closer(*pair) for pair in zip(rows, fresh, strict=True)] if rows else fresh
        if all(row.is_right for row in rows):
            break
    return Outcome(integration.name, recipe, rows, tries)


def _closer(one: Row, other: Row) -> Row:
    if one.difference is None or other.difference is None:
        return other
    return one if abs(one.difference) <= abs(other.difference) else other


def run_suite(integration: Integration, *, full: bool = False) -> list[Outcome]:
    """Run and check the recipes, and the simulated device if the integration can use it.

    Faults of the tracer itself are raised, not reported.
    """
    raised_before, REGISTRY.raise_faults = REGISTRY.raise_faults, True
    gc.collect()
    gc.freeze()  # a collection of all that is imported would take longer than what is measured
    try:
        outcomes = [run_recipe(integration, recipe) for recipe in recipes(full=full)]
        if integration.device_clock is not None:
            for accumulation in PARAMETERS["accumulation"] if full else ON_DEVICE:
                recipe = Recipe(accumulation=accumulation)
                rows = run_on_device(integration, recipe)
                outcomes.append(Outcome(integration.name, recipe, rows, clock="device"))
        return outcomes
    finally:
        gc.unfreeze()
        REGISTRY.raise_faults = raised_before


def load_integration(reference: str) -> Integration:
    """Import the integration that "module:attribute" names.

    Raises:
        ValueError: The reference names none.
    """
    module, _, attribute = reference.partition(":")
    if not attribute:
        raise ValueError(f"{reference!r} is not MODULE:ATTRIBUTE")
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, Integration):
        raise ValueError(f"{reference!r} names no Integration")
    return found


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Give the outcomes as plain data; `from_json` reads them back."""
    return [{**asdict(outcome), "conforms": outcome.conforms} for outcome in outcomes]


def from_json(data: Iterable[Mapping[str, Any]]) -> list[Outcome]:
    """Give the outcomes that `as_json` wrote."""
    outcomes = []
    for entry in data:
        recipe = Recipe(**{**entry["recipe"], "delays": Delays(**entry["recipe"]["delays"])})
        rows = [Row(**row) for row in entry["rows"]]
        outcome = Outcome(entry["integration"], recipe, rows, entry["tries"], entry["clock"])
        outcomes.append(outcome)
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite from the command line; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m traintrace.testing.conformance",
        description="Hold a tracing plugin against a recipe of known delays.",
        epilog="Exit codes: 0 conforms, 1 does not, 2 usage. Example: "
        "python -m traintrace.testing.conformance my_plugin.conformance:MINE --json results.json",
    )
    parser.add_argument("integration", metavar="MODULE:ATTRIBUTE", help="an Integration to import")
    parser.add_argument("--full", action="store_true", help="all combinations, not only all pairs")
    parser.add_argument("--verbose", action="store_true", help="the table of every recipe")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    options = parser.parse_args(arguments)
    try:
        integration = load_integration(options.integration)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    outcomes = run_suite(integration, full=options.full)
    for outcome in outcomes:
        if options.verbose or not outcome.conforms:
            print(
                f"{integration.name}: {outcome.clock}, {outcome.recipe.label}, tries={outcome.tries}"
            )
            print(table_of(outcome.rows), end="\n\n")
    for clock in dict.fromkeys(outcome.clock for outcome in outcomes):
        tables = [outcome.rows for outcome in outcomes if outcome.clock == clock]
        print(f"{integration.name}: {clock}, the worst of {len(tables)} recipes")
        print(table_of(worst_of(tables)))
    if options.json is not None:
        text = json.dumps(as_json(outcomes), indent=1, allow_nan=False)
        options.json.write_text(text + "\n", "utf-8")
    return 0 if all(outcome.conforms for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
