"""The public schema changes only on purpose: keys and null patterns are pinned to a version."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import golden
from tests.scenarios.builds import Builds
from traintrace_reporting.schema import validator
from traintrace_reporting.summary import SCHEMA_VERSION

Json = dict[str, Any]


@pytest.fixture(scope="session")
def shape(builds: Builds) -> Json:
    return golden.shape_of(builds.every())


@pytest.fixture
def places(tmp_path: Path, small: Json) -> tuple[Path, Path]:
    """A golden and its pins, written once at version 0.2."""
    kept, pins = tmp_path / "golden" / "public_schema.json", tmp_path / "pins.json"
    pins.write_text("{}")
    golden.update(small, kept, pins)
    return kept, pins


@pytest.fixture
def small() -> Json:
    return {
        "schema_version": "0.2",
        "keys": ["memory", "step_time", "step_time.clock"],
        "null": {"cpu": ["memory"], "gpu": []},
    }


def test_keys_and_nulls_of_all_scenarios_are_those_of_the_golden(shape: Json) -> None:
    found = golden.problems(shape)
    assert not found, "\n".join([*found, "", str(golden.__doc__)])


def test_the_schema_is_of_the_version_that_the_code_writes() -> None:
    schema = validator().schema
    assert isinstance(schema, dict)
    assert schema["properties"]["schema_version"] == {"const": SCHEMA_VERSION}


def test_a_golden_that_was_just_written_holds(small: Json, places: tuple[Path, Path]) -> None:
    assert golden.problems(small, *places) == []


def test_a_new_key_is_told_and_refused_at_the_same_version(
    small: Json, places: tuple[Path, Path]
) -> None:
    changed = copy.deepcopy(small)
    changed["keys"].append("step_time.drift")
    assert golden.problems(changed, *places) == ["+ key step_time.drift"]
    with pytest.raises(golden.Refused, match=r"public keys changed.*\n\+ key step_time\.drift"):
        golden.update(changed, *places)
    assert golden.problems(small, *places) == [], "a refusal leaves the golden alone"


def test_a_value_that_becomes_null_is_told_and_refused_at_the_same_version(
    small: Json, places: tuple[Path, Path]
) -> None:
    changed = copy.deepcopy(small)
    changed["null"]["gpu"] = ["memory"]
    assert golden.problems(changed, *places) == ["+ null memory in gpu"]
    with pytest.raises(golden.Refused, match="nulls of gpu changed"):
        golden.update(changed, *places)


def test_a_scenario_that_goes_is_refused_at_the_same_version(
    small: Json, places: tuple[Path, Path]
) -> None:
    changed = copy.deepcopy(small)
    del changed["null"]["cpu"]
    assert golden.problems(changed, *places) == ["- scenario cpu"]
    with pytest.raises(golden.Refused, match="nulls of cpu changed"):
        golden.update(changed, *places)


def test_a_new_scenario_without_a_new_key_needs_no_new_version(
    small: Json, places: tuple[Path, Path]
) -> None:
    more = copy.deepcopy(small)
    more["null"]["third"] = ["memory"]
    assert golden.problems(more, *places) == ["+ scenario third"]
    golden.update(more, *places)
    assert golden.problems(more, *places) == []


def test_a_new_version_may_change_everything_and_keeps_the_old_pin(
    small: Json, places: tuple[Path, Path]
) -> None:
    old = json.loads(places[1].read_text())["0.2"]
    changed = {**small, "schema_version": "0.3", "keys": ["memory"]}
    assert "run `python -m tests.scenarios.golden --update`" in golden.problems(changed, *places)[0]
    golden.update(changed, *places)
    assert golden.problems(changed, *places) == []
    assert json.loads(places[1].read_text())["0.2"] == old


def test_a_deleted_golden_is_noticed_and_comes_back_only_unchanged(
    small: Json, places: tuple[Path, Path]
) -> None:
    places[0].unlink()
    assert "is missing" in golden.problems(small, *places)[0]
    changed = copy.deepcopy(small)
    changed["keys"].append("step_time.drift")
    with pytest.raises(golden.Refused, match="public keys changed"):
        golden.update(changed, *places)
    assert not places[0].exists()
    golden.update(small, *places)
    assert golden.problems(small, *places) == []


def test_a_version_without_a_golden_is_told_to_make_one(small: Json, tmp_path: Path) -> None:
    pins = tmp_path / "pins.json"
    pins.write_text("{}")
    assert "no golden of schema 0.2 yet" in golden.problems(small, tmp_path / "none.json", pins)[0]


def test_a_golden_that_was_edited_by_hand_is_noticed(
    small: Json, places: tuple[Path, Path]
) -> None:
    changed = copy.deepcopy(small)
    changed["keys"].append("step_time.drift")
    places[0].write_text(json.dumps(changed))
    assert "edited by hand" in golden.problems(changed, *places)[0]


def test_lost_pins_are_noticed_and_nothing_is_written_without_them(
    small: Json, places: tuple[Path, Path]
) -> None:
    places[1].unlink()
    assert golden.problems(small, *places)
    with pytest.raises(golden.Refused, match="is missing"):
        golden.update(small, *places)


def test_a_metric_that_is_null_is_null_throughout(builds: Builds) -> None:
    for build in builds.every().values():
        for name, metric in build.summary["step_time"]["metrics"].items():
            numbers = {k: v for k, v in metric.items() if k not in ("clock", "by_rank")}
            if metric["mean"] is None:
                absent = {k for k, v in numbers.items() if v is None}
                assert absent == {*numbers} - {"n", "ranks_measured"}, (build.scenario.name, name)
