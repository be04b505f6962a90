"""A broken tracer fails: each rule of conformance catches what it is there for."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.plain import AUTOMATIC, MARKED
from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace.testing import conformance
from traintrace.testing.agreement import compare
from traintrace.testing.checking import COLUMNS, Row, check
from traintrace.testing.conformance import Outcome, from_json, run_recipe
from traintrace.testing.device_times import run_on_device
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Parts, Recipe
from traintrace.testing.table import table_of
from traintrace.testing.truth import Truth

RECIPE = Recipe(accumulation=4, evaluate_every=1, checkpoint_every=2)
MS = 1_000_000
Traced = tuple[RankFacts, Truth]


def _traced(integration: Integration, folder: Path) -> Traced:
    truth = Truth()
    parts = Parts(RECIPE, truth)
    with parts.watched():
        run_folder = integration.train(RECIPE, parts, folder)
    (rank,) = open_run(run_folder).facts(COLUMNS).ranks
    return rank, truth


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return _traced(MARKED, tmp_path_factory.mktemp("marked"))


def _wrong(rank: RankFacts, truth: Truth, integration: Integration = MARKED) -> dict[str, str]:
    """Give the verdicts that are wrong, without what a busy machine may add."""
    rows = check(rank, truth, RECIPE, integration)
    return {row.name: row.verdict for row in rows if row.verdict not in ("ok", "not measured")}


def _with_totals(rank: RankFacts, **changes: Any) -> RankFacts:
    return dataclasses.replace(rank, totals=dataclasses.replace(rank.totals, **changes))


def _with_column(rank: RankFacts, name: str, change: Callable[[list[Any]], None]) -> RankFacts:
    column = list(rank.columns[name])
    change(column)
    return dataclasses.replace(rank, columns={**rank.columns, name: column})


def _moved(rank: RankFacts, source: str, target: str, ns: int) -> RankFacts:
    held = dict(rank.totals.account_ns)
    held[source] -= ns
    held[target] = held.get(target, 0) + ns
    return _with_totals(rank, account_ns=held)


def test_the_untampered_run_conforms(traced: Traced) -> None:
    assert {name for name, verdict in _wrong(*traced).items() if verdict != "too much"} == set()


@pytest.mark.parametrize(
    "account", ["input_wait", "h2d", "forward", "backward", "optimizer", "evaluation", "checkpoint"]
)
def test_time_that_is_booked_elsewhere_is_too_little(traced: Traced, account: str) -> None:
    rank, truth = traced
    excess = rank.totals.account_ns[account] - sum(map(truth.total_ns, MARKED.parts_in(account)))
    tampered = _moved(rank, account, "other", excess + 50_000)
    assert _wrong(tampered, truth)[account] == "too little"


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_tracer_that_lost_a_seam_fails(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*args: object, **kwargs: object) -> Iterator[Callable[[], None]]:
        return iter(())

    monkeypatch.setattr(f"traintrace_plain_torch.seams.trace_{phase}", nothing)
    wrong = _wrong(*_traced(MARKED, tmp_path))
    assert wrong[phase] == "too little"
    assert wrong[f"{phase} calls"] == "wrong"


def test_time_that_is_booked_twice_breaks_the_sum(traced: Traced) -> None:
    rank, truth = traced
    held = {**rank.totals.account_ns, "forward": rank.totals.account_ns["forward"] + 1}
    assert "accounts sum to wall [ns]" in _wrong(_with_totals(rank, account_ns=held), truth)


def test_a_row_that_leaves_a_nanosecond_out_does_not_tile(traced: Traced) -> None:
    def longer(column: list[Any]) -> None:
        column[1] += 1

    rank, truth = traced
    assert "rows that do not tile" in _wrong(_with_column(rank, "duration_ns", longer), truth)


def test_time_that_is_too_much_is_found(traced: Traced) -> None:
    rank, truth = traced
    tampered = _moved(rank, "input_wait", "forward", 5 * MS * RECIPE.steps)
    assert _wrong(tampered, truth)["forward"] == "too much"


@pytest.mark.parametrize("phase", ["input_wait", "h2d", "forward", "backward", "optimizer"])
def test_a_call_in_the_wrong_step_is_found_though_its_total_is_right(
    traced: Traced, phase: str
) -> None:
    def one_call_later(column: list[Any]) -> None:
        column[0], column[1] = column[0] - 4 * MS, column[1] + 4 * MS

    rank, truth = traced
    tampered = _with_column(rank, f"{phase}_ns", one_call_later)
    assert f"steps with too little {phase}" in _wrong(tampered, truth)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"steps": 4}, "steps"),
        ({"steps_aborted": 1}, "aborted"),
        ({"micro_batches": 8}, "micro-batches"),
        ({"samples": 18}, "samples"),
        ({"dropped_rows": 1}, "rows lost"),
        ({"unbalanced": 1}, "unbalanced"),
    ],
)
def test_counts_are_exact(traced: Traced, change: dict[str, int], rule: str) -> None:
    rank, truth = traced
    assert rule in _wrong(_with_totals(rank, **change), truth)


@pytest.mark.parametrize("part", ["forward", "backward", "optimizer", "evaluation", "checkpoint"])
def test_calls_are_exact(traced: Traced, part: str) -> None:
    rank, truth = traced
    calls = {**rank.totals.calls, part: rank.totals.calls[part] - 1}
    assert f"{part} calls" in _wrong(_with_totals(rank, calls=calls), truth)


def test_groups_are_exact_though_their_sum_is_right(traced: Traced) -> None:
    rank, truth = traced
    assert list(rank.columns["micro_batches"]) == [4, 4, 1]
    tampered = _with_column(rank, "micro_batches", lambda column: column.reverse())
    assert "rows with wrong micro_batches" in _wrong(tampered, truth)


def test_a_flag_that_is_missing_is_found(traced: Traced) -> None:
    ahead = dataclasses.replace(MARKED, looks_ahead=True)
    assert "rows flagged lookahead" in _wrong(*traced, ahead)


def test_what_the_recipe_did_not_train_proves_nothing(traced: Traced) -> None:
    rank, _ = traced
    assert "clocked micro-batches" in _wrong(rank, Truth())


def test_unmeasured_is_absent_with_a_reason_and_never_zero(tmp_path: Path) -> None:
    rank, truth = _traced(AUTOMATIC, tmp_path)
    (row,) = (row for row in check(rank, truth, RECIPE, AUTOMATIC) if row.name == "h2d")
    assert (row.measured, row.verdict) == (None, "not measured")
    assert "not measured" in table_of([row])
    no_reason = dataclasses.replace(rank, unmeasured={})
    zero = _with_column(rank, "h2d_ns", lambda column: column.__setitem__(0, 0))
    measured = _with_totals(rank, account_ns={**rank.totals.account_ns, "h2d": 1})
    for tampered in (no_reason, zero, measured):
        assert _wrong(tampered, truth, AUTOMATIC)["h2d"] == "wrong"


def _answers(monkeypatch: pytest.MonkeyPatch, *tables: list[Row]) -> None:
    remaining: Iterator[list[Row]] = iter(tables)
    monkeypatch.setattr(conformance, "run_once", lambda *_: next(remaining))


def _row(excess: float, verdict: Any = "ok") -> Row:
    return Row("forward", "ms/step", 5.0, 5.0 + excess, verdict, 0.5)


def test_only_too_much_is_tried_again_and_the_closest_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answers(monkeypatch, [_row(3, "too much")], [_row(0.1)])
    outcome = run_recipe(MARKED, RECIPE)
    assert (outcome.conforms, outcome.tries, outcome.rows) == (True, 2, [_row(0.1)])
    _answers(monkeypatch, *[[_row(excess, "too much")] for excess in (3, 1, 2, 5, 4, 6)])
    outcome = run_recipe(MARKED, RECIPE)
    assert (outcome.conforms, outcome.tries, outcome.rows) == (False, 6, [_row(1, "too much")])


def test_too_little_is_never_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, [_row(-1, "too little")], [_row(0)])
    assert not run_recipe(MARKED, RECIPE).conforms
    _answers(monkeypatch, [_row(3, "too much")], [_row(-1, "too little")], [_row(0)])
    assert not run_recipe(MARKED, RECIPE).conforms


def test_integrations_that_disagree_are_named() -> None:
    def suite(excess: float, steps: int = 3) -> list[Outcome]:
        rows = [_row(excess), Row("steps", "count", 3, steps, "ok")]
        return [Outcome("any", RECIPE, rows)]

    assert compare({"one": suite(0.1), "other": suite(0.5)}) == []
    (apart,) = compare({"one": suite(0.1), "other": suite(0.7)})
    assert "forward" in apart
    assert "other" in apart
    (unequal,) = compare({"one": suite(0), "other": suite(0, steps=4)})
    assert "steps are" in unequal


def test_outcomes_survive_json() -> None:
    outcome = Outcome("plain", RECIPE, [_row(0.1)], 2, "device")
    assert from_json(conformance.as_json([outcome])) == [outcome]


@pytest.mark.parametrize("integration", [MARKED, AUTOMATIC], ids=lambda i: i.name)
def test_a_microsecond_that_the_device_did_not_get_is_found(
    integration: Integration, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Parts.optimizer

    def optimizer(parts: Parts) -> Any:
        made = original(parts)
        launch, delays = made._spend, parts.recipe.delays

        def late(milliseconds: float) -> None:
            assert milliseconds == delays.optimizer
            launch(milliseconds + 0.001)

        made._spend = late
        return made

    assert all(row.is_right for row in run_on_device(integration, RECIPE))
    monkeypatch.setattr(Parts, "optimizer", optimizer)
    wrong = {row.name for row in run_on_device(integration, RECIPE) if not row.is_right}
    assert wrong == {"optimizer: steps with wrong device time"}
