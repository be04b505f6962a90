"""What `traintrace doctor` says of the machine and the installation."""

import json
import subprocess
import sys
from importlib import metadata

import pytest
from click.testing import CliRunner

from traintrace_analysis.thresholds import BY_FAMILY, TABLE
from traintrace_analysis.wording import quantity
from traintrace_reporting import doctor
from traintrace_reporting.cli import main


def test_the_price_of_a_mark_and_the_clock_are_measured() -> None:
    found = doctor.examine()
    assert 10 < found["transition_ns"]["hot_loop"] < 100_000
    assert 0 < found["clock"]["smallest_difference_ns"] < 1e8
    assert 1 <= found["cpu"]["usable"] <= found["cpu"]["count"]


def test_a_distribution_that_is_not_installed_has_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    found = doctor.examine()
    assert set(found["packages"].values()) == {None}


def test_plugins_are_found_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("some.framework", "no_such_module:attach", doctor.PLUGIN_GROUP)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [point] if group == doctor.PLUGIN_GROUP else []
    )
    assert doctor.examine()["plugins"] == [
        {
            "trigger": "some.framework",
            "attach": "no_such_module:attach",
            "distribution": "unknown",
            "version": None,
        }
    ]


def test_the_page_and_the_json_tell_the_same() -> None:
    page = CliRunner().invoke(main, ["doctor"])
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert page.exit_code == 0
    assert found["python"] in page.stdout
    assert "in a hot loop" in page.stdout
    assert all(name in page.stdout for name in found["packages"])


def test_thresholds_are_shown_only_when_asked_for() -> None:
    name = next(iter(TABLE))
    assert name not in CliRunner().invoke(main, ["doctor"]).stdout
    assert "thresholds" not in json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert name in CliRunner().invoke(main, ["doctor", "--thresholds"]).stdout


def test_every_threshold_is_told_with_value_unit_source_and_family() -> None:
    found = json.loads(CliRunner().invoke(main, ["doctor", "--thresholds", "--json"]).stdout)
    assert set(found["thresholds"]) == set(TABLE)
    for family, limits in BY_FAMILY.items():
        for name, entry in limits.items():
            assert found["thresholds"][name] == {
                "value": entry.value,
                "unit": entry.unit,
                "family": family,
                "source": entry.source,
            }


def test_the_page_of_thresholds_has_a_section_for_each_family() -> None:
    page = CliRunner().invoke(main, ["doctor", "--thresholds"], env={"COLUMNS": "400"}).stdout
    words = " ".join(page.split())
    for family, limits in BY_FAMILY.items():
        begin = words.index(f"Thresholds: {family}") if limits else 0
        for name, entry in limits.items():
            line = f"{name} {quantity(entry.value, entry.unit)}: {entry.source}"
            assert " ".join(line.split()) in words[begin:], name


def test_no_threshold_has_two_meanings() -> None:
    names = [name for limits in BY_FAMILY.values() for name in limits]
    assert len(set(names)) == len(names) == len(TABLE)
    assert all(entry.source and entry.unit for entry in TABLE.values())


def test_doctor_loads_no_framework() -> None:
    code = (
        "import sys; from traintrace_reporting import doctor; doctor.examine();"
        "print(sorted({'torch', 'lightning', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
