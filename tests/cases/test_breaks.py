"""Every case was seen to fail against a broken seam, and still does: `make check-long` breaks them all."""

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cases.breaking import Break

CASES = Path(__file__).parent
ROOT = CASES.parents[1]
FAMILIES = sorted(path.parent.name for path in CASES.glob("*/breaks.py"))
CASE_ID = re.compile(r"test_([a-z]\d+)_")
PARTS = ("core", "analysis", "reporting", "plugins", "tests", "pyproject.toml")
PACKAGES = ("core", "analysis", "reporting", *(f"plugins/{x.name}" for x in ROOT.glob("plugins/*")))


def breaks_of(family: str) -> tuple[Break, ...]:
    breaks: tuple[Break, ...] = import_module(f"tests.cases.{family}.breaks").BREAKS
    return breaks


def nodes_of(family: str) -> dict[str, list[str]]:
    """Give the tests of each case: `test_l13_...` is one of l13."""
    found: dict[str, list[str]] = {}
    for path in (CASES / family).glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match = isinstance(node, ast.FunctionDef) and CASE_ID.match(node.name)
            if match and isinstance(node, ast.FunctionDef):
                test = f"{path.relative_to(ROOT)}::{node.name}"
                found.setdefault(match[1], []).append(test)
    return found


ALL = [(family, defect) for family in FAMILIES for defect in breaks_of(family)]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_has_a_break(family: str) -> None:
    broken = {case for defect in breaks_of(family) for case in defect.cases}
    assert broken == set(nodes_of(family))


@pytest.mark.parametrize(("family", "defect"), ALL, ids=[f"{f}-{d.cases[0]}" for f, d in ALL])
def test_every_break_fits_the_code_as_it_is(family: str, defect: Break) -> None:
    text = (ROOT / defect.file).read_text(encoding="utf-8")
    assert text.count(defect.old) == 1
    assert defect.new not in (defect.old, "")
    ast.parse(text.replace(defect.old, defect.new))


@pytest.mark.long
@pytest.mark.parametrize(("family", "defect"), ALL, ids=[f"{f}-{d.cases[0]}" for f, d in ALL])
def test_a_case_fails_when_its_seam_is_broken(family: str, defect: Break, tmp_path: Path) -> None:
    for part in PARTS:
        place = ROOT / part
        copy = shutil.copytree if place.is_dir() else shutil.copy
        copy(place, tmp_path / part)
    broken = tmp_path / defect.file
    text = broken.read_text(encoding="utf-8")
    broken.write_text(text.replace(defect.old, defect.new), encoding="utf-8")
    assert set(defect.cases) <= _failing(tmp_path, family, defect.cases)


def _failing(root: Path, family: str, cases: tuple[str, ...]) -> set[str]:
    """Run the cases in the copy at `root`; give the ids of those of which a test failed."""
    results = root / "results.xml"
    tests = [test for case in cases for test in nodes_of(family)[case]]
    options = ("-q", "-p", "no:cacheprovider", f"--junitxml={results}")
    subprocess.run(
        [sys.executable, "-m", "pytest", *tests, *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(root / path) for path in PACKAGES)},
        capture_output=True,
        check=False,
    )
    failed = set()
    for test in ElementTree.parse(results).iter("testcase"):
        match = CASE_ID.match(test.get("name", ""))
        if match and any(child.tag in ("failure", "error") for child in test):
            failed.add(match[1])
    return failed
