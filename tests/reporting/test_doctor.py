"""What `traintrace doctor` says of the machine and the installation."""

import io
import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from traintrace_analysis.thresholds import BY_FAMILY, TABLE
from traintrace_analysis.wording import quantity
from traintrace_reporting import doctor
from traintrace_reporting.cli import main
from traintrace_reporting.doctor import storage
from traintrace_reporting.doctor.seams import ask_torch_and_plugins


def test_the_price_of_a_mark_and_the_clock_are_measured() -> None:
    found = doctor.examine(imports=False)
    assert 10 < found["transition_ns"]["hot_loop"] < 100_000
    assert 0 < found["clock"]["smallest_difference_ns"] < 1e8
    assert 1 <= found["cpu"]["usable"] <= found["cpu"]["count"]


def test_a_distribution_that_is_not_installed_has_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    found = doctor.examine(imports=False)
    assert set(found["packages"].values()) == {None}


def test_plugins_are_found_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("some.framework", "no_such_module:attach", doctor.PLUGIN_GROUP)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [point] if group == doctor.PLUGIN_GROUP else []
    )
    assert doctor.examine(imports=False)["plugins"] == [
        {
            "trigger": "some.framework",
            "attach": "no_such_module:attach",
            "distribution": "unknown",
            "version": None,
        }
    ]


def test_the_page_and_the_json_tell_the_same() -> None:
    page = CliRunner().invoke(main, ["doctor", "--light"])
    found = json.loads(CliRunner().invoke(main, ["doctor", "--light", "--json"]).stdout)
    assert page.exit_code == 0
    assert found["python"] in page.stdout
    assert "in a hot loop" in page.stdout
    assert all(name in page.stdout for name in found["packages"])


def test_thresholds_are_shown_only_when_asked_for() -> None:
    name = next(iter(TABLE))
    assert name not in CliRunner().invoke(main, ["doctor", "--light"]).stdout
    assert "thresholds" not in json.loads(
        CliRunner().invoke(main, ["doctor", "--light", "--json"]).stdout
    )
    assert name in CliRunner().invoke(main, ["doctor", "--light", "--thresholds"]).stdout


def test_every_threshold_is_told_with_value_unit_source_and_family() -> None:
    found = json.loads(
        CliRunner().invoke(main, ["doctor", "--light", "--thresholds", "--json"]).stdout
    )
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
    page = (
        CliRunner()
        .invoke(main, ["doctor", "--light", "--thresholds"], env={"COLUMNS": "400"})
        .stdout
    )
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


def test_clocks_limits_and_the_run_folder_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctor.examine(imports=False)
    assert 0 < found["system_clock"]["smallest_difference_ns"] < 1e9
    assert 0 < found["cpu"]["allowed_cores"] <= found["cpu"]["count"]
    assert set(found["memory"]) == {"limit_bytes", "used_bytes"}
    folder = found["run_folder"]
    assert (folder["place"], folder["writable"], folder["reason"]) == ("runs", True, None)
    assert folder["flush_ms"] > 0
    assert list(tmp_path.iterdir()) == []  # it leaves nothing behind
    assert found["torch"] is found["seams"] is None


def test_the_run_folder_is_that_of_the_settings_and_of_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traintrace.yaml").write_text("run_dir: out\n", "utf-8")
    assert doctor.examine(imports=False)["run_folder"]["place"] == str(tmp_path / "out")
    other = doctor.examine(imports=False, run_dir="elsewhere")["run_folder"]
    assert other["place"] == "elsewhere"
    assert other["settings_file"] == str(tmp_path / "traintrace.yaml")
    (tmp_path / "traintrace.yaml").write_text("levle: host\n", "utf-8")
    assert "levle" in doctor.examine(imports=False)["run_folder"]["settings_error"]


def test_a_url_is_tried_and_nothing_stays_there(tmp_path: Path) -> None:
    folder = doctor.examine(imports=False, run_dir=(tmp_path / "runs").as_uri())["run_folder"]
    assert folder["url"] is folder["writable"] is True
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    unknown = doctor.examine(imports=False, run_dir="nowhere9://x/y")["run_folder"]
    assert unknown["writable"] is False
    assert "nowhere9" in unknown["reason"]


def test_a_run_folder_that_cannot_be_written_is_an_obstacle_only_if_nothing_else_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    found = doctor.examine(imports=False)
    assert doctor.obstacles(found) == []
    folder = found["run_folder"] | {"writable": False, "reason": "read-only"}
    assert doctor.obstacles(found | {"run_folder": folder}) == []  # runs go to the temporary folder
    nowhere = folder | {"temporary_writable": False}
    (told,) = doctor.obstacles(found | {"run_folder": nowhere})
    assert "runs can be written neither into" in told
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    result = CliRunner().invoke(main, ["doctor", "--light"])
    assert result.exit_code == 1
    assert "neither" in result.stderr
    page = " ".join(result.stdout.split())
    assert "Writable no (read-only)" in page  # the page is there all the same


def test_no_torch_and_no_plugin_are_obstacles() -> None:
    found = doctor.examine(imports=False)
    bare = found | {"packages": dict.fromkeys(found["packages"]), "plugins": []}
    assert len(doctor.obstacles(bare)) == 2
    broken = found | {"torch": {"error": "ImportError: libcudart"}}
    assert doctor.obstacles(broken) == ["torch cannot be imported (ImportError: libcudart)"]


def test_torch_and_every_installed_plugin_answer_and_doctor_itself_loads_none_of_them() -> None:
    code = (
        "import sys, json; from traintrace_reporting import doctor; found = doctor.examine();"
        "print(sorted({'torch', 'lightning', 'transformers'} & set(sys.modules)));"
        "print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, answer = done.stdout.splitlines()
    assert loaded == "[]"
    found = json.loads(answer)
    assert found["torch"]["error"] is None
    assert found["torch"]["version"] == torch.__version__
    assert "gloo" in found["torch"]["distributed"]
    states = {seam["trigger"]: seam for seam in found["seams"]}
    assert set(states) == {plugin["trigger"] for plugin in found["plugins"]}
    for name in ("torch", "lightning.pytorch", "transformers.trainer"):
        assert states[name]["state"] == "ready", states[name]
        assert states[name]["seams"] > 5
    page = io.StringIO()
    Console(file=page, width=100).print(doctor.render(found))
    assert "transformers.trainer" in page.getvalue()


def test_what_does_not_load_attach_or_exist_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake_plugin").mkdir()
    (tmp_path / "fake_plugin" / "__init__.py").write_text("", "utf-8")
    (tmp_path / "fake_plugin" / "attach.py").write_text(
        "def attach(options):\n    return lambda: None\ndef fail(options):\n    raise KeyError('x')\n",
        "utf-8",
    )
    (tmp_path / "fake_plugin" / "seam_names.py").write_text(
        "SEAMS = {'json:dumps': 'steps', 'json:no_such_thing': 'forward'}\n", "utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asked = [
        {"trigger": "json", "attach": "fake_plugin.attach:attach"},
        {"trigger": "json", "attach": "fake_plugin.attach:fail"},
        {"trigger": "json", "attach": "no_such_module.attach:attach"},
        {"trigger": "no_such_framework.trainer", "attach": "fake_plugin.attach:attach"},
    ]
    _, states = ask_torch_and_plugins(asked)
    assert [state["state"] for state in states] == [
        "incomplete",
        "broken",
        "broken",
        "not installed",
    ]
    assert states[0]["missing"] == {"json:no_such_thing": "forward"}
    assert "does not attach: KeyError" in states[1]["error"]
    assert "does not load: ModuleNotFoundError" in states[2]["error"]


def test_a_run_folder_on_a_network_file_system_is_tried_as_runs_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "network_file_system", lambda path: "nfs4")
    monkeypatch.chdir(tmp_path)
    folder = doctor.examine(imports=False)["run_folder"]
    assert (folder["network_file_system"], folder["writable"]) == ("nfs4", True)
    assert not list(tmp_path.rglob("*.sqlite*"))  # no database was opened there
    page = " ".join(CliRunner().invoke(main, ["doctor", "--light"]).stdout.split())
    assert "on a network file system (nfs4): ranks write locally and publish" in page
