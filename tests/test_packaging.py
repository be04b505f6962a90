"""The promises that keep many distributions in one repository from drifting apart."""

import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(p.parent for p in ROOT.glob("*/pyproject.toml")) + sorted(
    p.parent for p in ROOT.glob("plugins/*/pyproject.toml")
)


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


VERSIONS = {project(folder)["name"]: project(folder)["version"] for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_names_follow_from_one_another(folder: Path) -> None:
    name = project(folder)["name"]
    expected = "traintrace" if folder.name == "core" else f"traintrace-{folder.name}"
    assert name == expected.replace("_", "-")
    assert (folder / name.replace("-", "_") / "py.typed").is_file()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_the_changelog_opens_with_the_declared_version(folder: Path) -> None:
    changelog = (folder / "CHANGELOG.md").read_text("utf-8").splitlines()
    first = next(line for line in changelog if line.startswith("## "))
    assert first.split()[1] == project(folder)["version"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_ranges_admit_the_siblings_in_this_tree(folder: Path) -> None:
    table = project(folder)
    extras = [r for group in table.get("optional-dependencies", {}).values() for r in group]
    for text in table["dependencies"] + extras:
        requirement = Requirement(text)
        if requirement.name in VERSIONS:
            assert requirement.specifier.contains(VERSIONS[requirement.name]), text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_a_dependency_on_a_sibling_stops_before_its_next_breaking_release(folder: Path) -> None:
    for text in project(folder)["dependencies"]:
        requirement = Requirement(text)
        if requirement.name in VERSIONS:
            assert any(s.operator == "<" for s in requirement.specifier), text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_no_distribution_pins_torch(folder: Path) -> None:
    for text in project(folder)["dependencies"]:
        requirement = Requirement(text)
        assert requirement.name != "torch" or "==" not in str(requirement.specifier)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_ranges_are_the_declared_ones(folder: Path) -> None:
    table = project(folder)
    assert table["requires-python"] == ">=3.10"
    ranges = {r.name: str(r.specifier) for r in map(Requirement, table["dependencies"])}
    assert ranges.get("torch", ">=2.6") == ">=2.6"
    assert ranges.get("transformers", ">=4.46.1") == ">=4.46.1"
    assert not {"lightning", "pytorch-lightning"} & set(ranges)


def test_the_tool_version_is_the_core_s() -> None:
    from traintrace.runs.start import TOOL_VERSION

    assert VERSIONS["traintrace"] == TOOL_VERSION


def test_installed_versions_are_those_of_this_tree() -> None:
    try:
        installed = {name: version(name) for name in VERSIONS}
    except PackageNotFoundError:
        pytest.skip("run from a plain source tree, nothing installed")
    assert installed == VERSIONS


def test_every_entry_point_is_a_light_attach_function() -> None:
    points = entry_points(group="traintrace.plugins")
    if not points:
        pytest.skip("run from a plain source tree, nothing installed")
    assert {point.name for point in points} == {
        "lightning.pytorch",
        "lightning_fabric",
        "pytorch_lightning",
        "torch",
        "transformers.trainer",
    }
    code = "from importlib.metadata import entry_points; import sys\n"
    code += "points = entry_points(group='traintrace.plugins')\n"
    # Where torch is what triggers a plugin, it is there.
    code += "[point.load() for point in points if point.name != 'torch']\n"
    code += "assert not {'torch', 'lightning', 'transformers'} & set(sys.modules), 'not light'"
    subprocess.run([sys.executable, "-c", code], check=True)
    for point in points:
        assert point.value.endswith(".attach:attach")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_every_distribution_carries_its_licence_and_readme(folder: Path) -> None:
    assert (folder / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")
    assert len((folder / "README.md").read_text("utf-8").splitlines()) >= 5


def test_the_built_wheels_install_into_an_empty_environment_and_import(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for folder in FOLDERS:
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(wheels)]
        subprocess.run([*build, str(folder)], check=True, capture_output=True)
    assert len(list(wheels.glob("*.whl"))) == len(list(wheels.glob("*.tar.gz"))) == len(FOLDERS)
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = [*pip, "install", "--no-index", "--no-deps", "--quiet"]
    subprocess.run([*install, *map(str, wheels.glob("*.whl"))], check=True)
    # Third-party packages come from this environment, where ours are editable and so not seen.
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    Path(site, "third_party.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    modules = [name.replace("-", "_") for name in VERSIONS]
    code = f"for name in {modules}: print(__import__(name).__file__)"
    found = subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout.splitlines()
    assert len(found) == len(modules)
    assert all(place.startswith(str(environment)) for place in found), found
    help_text = subprocess.run(
        [str(environment / "bin" / "traintrace"), "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "report" in help_text.stdout
