"""The declaration of a guarded workload: every rule of its fields, and when two are equal."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traintrace_reporting.guard_contract import (
    LARGEST,
    contract_of,
    first_problem,
)
from traintrace_reporting.settings import FILE_NAME, load_settings
from traintrace_reporting.settings_keys import SettingsError

GUARD: dict[str, Any] = {
    "schema_version": 1,
    "workload": {"name": "digits", "parameters": {"lr": 0.1, "model": "mlp", "batch": 32}},
    "measurement": {"start_step": 10, "completed_steps": 50},
}
YAML = """\
guard:
  schema_version: 1
  workload:
    name: digits
    parameters:
      lr: {value}
  measurement:
    start_step: {start}
    completed_steps: {count}
"""
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    guard = copy.deepcopy(GUARD)
    change(guard)
    return guard


def parameters(**given: object) -> Change:
    return lambda guard: guard["workload"].update(parameters=given)


@pytest.mark.parametrize(
    "change",
    [
        lambda guard: guard["workload"].pop("parameters"),
        lambda guard: guard["workload"].update(name="n" * 128),
        lambda guard: guard["workload"].update(name="名前 with blanks"),
        lambda guard: guard["measurement"].update(start_step=1, completed_steps=LARGEST),
        lambda guard: guard["measurement"].update(start_step=LARGEST, completed_steps=1),
        parameters(**{"k" * 64: "v" * 256}),
        parameters(low=-LARGEST - 1, high=LARGEST, yes=True, small=-0.0, text=" blanks are kept "),
        parameters(**{f"p{number}": number for number in range(32)}),
    ],
)
def test_what_the_rules_allow_is_taken(change: Change) -> None:
    assert first_problem(changed(change)) is None


@pytest.mark.parametrize(
    ("change", "place", "told"),
    [
        (lambda g: g.update(schema_version=2), "schema_version", "use 1"),
        (lambda g: g.update(schema_version=True), "schema_version", "use 1"),
        (lambda g: g.update(schema_version=1.0), "schema_version", "use 1"),
        (lambda g: g.update(schema_version="1"), "schema_version", "use 1"),
        (lambda g: g.update(owner="me"), "owner", "no such field"),
        (lambda g: g.pop("measurement"), "", "measurement is missing"),
        (lambda g: g.update(workload=None), "workload", "use a mapping"),
        (lambda g: g["workload"].pop("name"), "workload", "name is missing"),
        (lambda g: g["workload"].update(kind=1), "workload.kind", "no such field"),
        (lambda g: g["workload"].update(name=""), "workload.name", "not empty"),
        (lambda g: g["workload"].update(name=" x"), "workload.name", "blanks around"),
        (lambda g: g["workload"].update(name="x\u00a0"), "workload.name", "blanks around"),
        (lambda g: g["workload"].update(name="n" * 129), "workload.name", "at most 128"),
        (lambda g: g["workload"].update(name=7), "workload.name", "use a text"),
        (lambda g: g["workload"].update(name="a\u200bb"), "workload.name", "U+200B"),
        (lambda g: g["workload"].update(name="a\x1b[31m"), "workload.name", "U+001B"),
        (lambda g: g["workload"].update(name="a\ud800"), "workload.name", "U+D800"),
        (lambda g: g["workload"].update(name="a\ue000"), "workload.name", "U+E000"),
        (lambda g: g["workload"].update(parameters=None), "workload.parameters", "use a mapping"),
        (lambda g: g["workload"].update(parameters=[1]), "workload.parameters", "use a mapping"),
        (parameters(**{f"p{n}": n for n in range(33)}), "workload.parameters", "at most 32"),
        (parameters(**{"": 1}), "workload.parameters.", "not empty"),
        (parameters(**{"a ": 1}), "workload.parameters.a ", "blanks around"),
        (parameters(**{"k" * 65: 1}), "workload.parameters." + "k" * 65, "at most 64"),
        (parameters(**{"a\u202eb": 1}), "workload.parameters.a\u202eb", "U+202E"),
        (lambda g: g["workload"].update(parameters={1: 1}), "workload.parameters", "quote it"),
        (parameters(a=""), "workload.parameters.a", "not empty"),
        (parameters(a="v" * 257), "workload.parameters.a", "at most 256"),
        (parameters(a="tab\t"), "workload.parameters.a", "U+0009"),
        (parameters(a=None), "workload.parameters.a", "use a text, a number or a truth value"),
        (parameters(a=[1]), "workload.parameters.a", "use a text, a number or a truth value"),
        (parameters(a={"b": 1}), "workload.parameters.a", "use a text, a number or a truth value"),
        (parameters(a=float("inf")), "workload.parameters.a", "finite"),
        (parameters(a=float("nan")), "workload.parameters.a", "finite"),
        (parameters(a=LARGEST + 1), "workload.parameters.a", "64 bits"),
        (parameters(a=-LARGEST - 2), "workload.parameters.a", "64 bits"),
        (lambda g: g["measurement"].update(start_step=0), "measurement.start_step", "from 1"),
        (lambda g: g["measurement"].update(start_step=True), "measurement.start_step", "from 1"),
        (lambda g: g["measurement"].update(start_step=1.0), "measurement.start_step", "from 1"),
        (lambda g: g["measurement"].update(completed_steps="5"), "measurement.completed_steps", "unquoted"),
        (lambda g: g["measurement"].update(completed_steps=0), "measurement.completed_steps", "from 1"),
        (lambda g: g["measurement"].update(completed_steps=LARGEST), "measurement.completed_steps", "beyond"),
        (lambda g: g["measurement"].update(stop=1), "measurement.stop", "no such field"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_refused_where_it_stands(
    change: Change, place: str, told: str
) -> None:
    problem = first_problem(changed(change))
    assert problem is not None
    assert ".".join(problem.place) == place
    assert told in problem.told


@pytest.mark.parametrize("guard", [None, 1, "guard", [], {1: 2}, {}])
def test_what_is_no_declaration_at_all_is_refused(guard: object) -> None:
    assert first_problem(guard) is not None


@pytest.mark.parametrize(
    ("value", "start", "count", "told"),
    [
        ("1e-3", "0", "5", "line 8: guard.measurement.start_step: 0 (a whole number): use"),
        ("0.1", "'10'", "5", "line 8: guard.measurement.start_step: '10' (a text): use"),
        ("2026-01-01", "1", "5", "line 6: guard.workload.parameters.lr: datetime.date(2026, 1, 1)"),
        ("~", "1", "5", "line 6: guard.workload.parameters.lr: None (null): use"),
        ("[0.1]", "1", "5", "line 6: guard.workload.parameters.lr: [0.1] (a list): use"),
        (".inf", "1", "5", "line 6: guard.workload.parameters.lr: inf (a decimal number): use"),
        ("0x" + "f" * 4000, "1", "5", "line 6: guard.workload.parameters.lr: ... (a whole number)"),
        ("0.1", "1", "yes", "line 9: guard.measurement.completed_steps: True (a truth value): use"),
    ],
)
def test_a_settings_file_is_refused_with_file_line_key_and_the_value_as_yaml_types_it(
    tmp_path: Path, value: str, start: str, count: str, told: str
) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(YAML.format(value=value, start=start, count=count), "utf-8")
    with pytest.raises(SettingsError) as error:
        load_settings(tmp_path)
    assert str(error.value).startswith(f"{path}, {told}")
    assert len(str(error.value).splitlines()) == 1


def test_yaml_types_are_kept_and_the_measured_steps_are_kept_raw(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(YAML.format(value="1e-3", start="010", count="1:30"), "utf-8")
    settings = load_settings(tmp_path)
    assert settings.guard is not None
    contract = contract_of(settings.guard)
    assert contract.parameters == {"lr": "1e-3"}, "PyYAML reads 1e-3 as a text"
    assert (contract.start_step, contract.completed_steps) == (8, 90)
    assert settings.options().keep_steps == (8, 97)


def test_equal_declarations_have_one_digest_and_every_difference_another() -> None:
    base = contract_of(GUARD)
    shuffled = {name: GUARD[name] for name in reversed(GUARD)}
    shuffled["workload"] = {
        "parameters": {"batch": 32, "model": "mlp", "lr": 0.1},
        "name": "digits",
    }
    assert contract_of(shuffled).digest == base.digest
    assert contract_of(base.content).digest == base.digest
    others = [
        parameters(lr=0.1, model="mlp", batch=32.0),
        parameters(lr=0.1, model="mlp", batch="32"),
        parameters(lr=0.1, model="mlp"),
        lambda guard: guard["workload"].update(name="Digits"),
        lambda guard: guard["measurement"].update(start_step=11),
        lambda guard: guard["measurement"].update(completed_steps=51),
    ]
    digests = {contract_of(changed(change)).digest for change in others}
    assert len(digests | {base.digest}) == len(others) + 1
    one, true = (contract_of(changed(parameters(a=value))).digest for value in (1, True))
    assert one != true
    empty = contract_of(changed(parameters())).digest
    assert contract_of(changed(lambda g: g["workload"].pop("parameters"))).digest == empty
