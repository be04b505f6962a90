"""What `traintrace doctor` says of the machine and the installation."""

import json
import subprocess
import sys
from importlib import metadata

import pytest
from click.testing import CliRunner

from traintrace_analysis.thresholds import TABLE
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
    name, entry = next(iter(TABLE.items()))
    assert name not in CliRunner().invoke(main, ["doctor"]).stdout
    assert name in CliRunner().invoke(main, ["doctor", "--thresholds"]).stdout
    found = json.loads(CliRunner().invoke(main, ["doctor", "--thresholds", "--json"]).stdout)
    assert set(found["thresholds"]) == set(TABLE)
    assert found["thresholds"][name]["value"] == entry.value


def test_doctor_loads_no_framework() -> None:
    code = (
        "import sys; from traintrace_reporting import doctor; doctor.examine();"
        "print(sorted({'torch', 'lightning', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
