"""`traintrace diff`: what differs, what that may explain, and what nobody can say."""

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.labs.coresessions import open_session, step
from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP
from traintrace_reporting.cli import main
from traintrace_reporting.provenance import compare_provenance

Summary = dict[str, Any]
Change = Callable[[Summary], Any]


def diff(*words: object) -> Any:
    result = CliRunner().invoke(main, ["diff", *map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def shown(*words: object) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, words)])


def logged(folder: Path, name: str, values: Mapping[str, Sequence[float | None]]) -> Path:
    """Record a run that logs values, None for a step without one; give its folder."""
    session = open_session(folder, name=name)
    for at in range(max(map(len, values.values()), default=3)):
        for called, series in values.items():
            value = series[at] if at < len(series) else None
            if value is not None:
                session.log(called, value)
        step(session)
    session.finish("completed")
    return session.folder


@pytest.fixture(scope="module")
def base() -> Summary:
    return known(make_summary("a"))


def known(summary: Summary) -> Summary:
    """Fill in what a real run records of itself."""
    environment = summary["environment"]
    environment["git"] = {"commit": "c0ffee", "dirty": False}
    environment["seeds"] = {"torch": 1}
    environment["packages"] = {"torch": "2.13.0", "numpy": "2.1.0"}
    environment["flags"] = {"OMP_NUM_THREADS": "1"}
    return summary


def changed(base: Summary, *changes: Change) -> Summary:
    summary = copy.deepcopy(base)
    for change in changes:
        change(summary)
    return summary


@pytest.mark.parametrize(
    ("change", "name", "effects"),
    [
        (lambda s: s["environment"]["git"].update(commit="dead"), "git commit", "both"),
        (lambda s: s["environment"].update(torch="2.14"), "torch", "both"),
        (lambda s: s["environment"].update(cpu="i9"), "processor", "both"),
        (lambda s: s["environment"]["seeds"].update(torch=2), "seed of torch", "results"),
        (lambda s: s["environment"]["packages"].update(numpy="2.2"), "numpy", "both"),
        (lambda s: s["environment"]["packages"].pop("numpy"), "numpy", "both"),
        (lambda s: s["environment"]["flags"].clear(), "OMP_NUM_THREADS", "both"),
        (lambda s: s["environment"]["flags"].update(NCCL_DEBUG="INFO"), "NCCL_DEBUG", "time"),
        (lambda s: s["environment"]["flags"].update(PYTHONHASHSEED="0"), "PYTHONHASHSEED", "results"),
        (lambda s: s["setup"].update(cpu_count=4), "CPUs", "time"),
        (lambda s: s["run"].update(world_size=2), "ranks", "both"),
    ],
)  # fmt: skip
def test_one_difference_is_found_with_what_it_may_change(
    base: Summary, change: Change, name: str, effects: str
) -> None:
    (found,) = compare_provenance(base, changed(base, change)).differences
    assert found.name == name
    assert found.effects == ({"time", "results"} if effects == "both" else {effects})


def test_what_one_side_does_not_know_is_no_difference(base: Summary) -> None:
    def older(summary: Summary) -> None:
        summary["environment"].update(cpu=None, git={"commit": None, "dirty": None})
        del summary["environment"]["flags"]

    found = compare_provenance(base, changed(base, older))
    assert found.differences == ()
    assert {"processor", "git commit", "environment variables"} <= set(found.unknown)
    assert found.doubts


def test_uncommitted_changes_are_told_on_either_side(base: Summary) -> None:
    dirty = changed(base, lambda s: s["environment"]["git"].update(dirty=True))
    for pair in ((base, dirty), (dirty, base)):
        (told,) = compare_provenance(*pair).doubts
        assert "changes that are in no commit" in told


def write(folder: Path, name: str, summary: Summary) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(summary), "utf-8")
    return path


def test_a_change_of_time_is_put_to_what_may_change_time_alone(
    tmp_path: Path, base: Summary
) -> None:
    slow = known(make_summary("b", ms={**CPU_STEP, "backward": 12.0}))
    slow["environment"]["seeds"] = {"torch": 2}
    slow["environment"]["flags"] = {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "INFO"}
    content = diff(write(tmp_path, "a", base), write(tmp_path, "b", slow))
    assert content["time"]["verdict"] == "REGRESSION"
    assert content["time"]["could_explain"] == ["NCCL_DEBUG"]
    assert content["results"]["state"] == "not_comparable"
    assert "of A and B there is only a summary" in content["results"]["told"]
    page = shown(tmp_path / "a.json", tmp_path / "b.json")
    assert "Could explain it: NCCL_DEBUG." in page.stdout
    assert max(map(len, page.stdout.splitlines())) <= 80


def test_the_first_step_with_other_bits_and_the_first_beyond_tolerance_are_told(
    tmp_path: Path,
) -> None:
    values = [1.0, 0.5, 0.25, 0.125]
    off = [1.0, 0.5 * (1 + 1e-9), 0.25 * (1 + 1e-3), 0.1]
    a, b = (logged(tmp_path, name, {"loss": v}) for name, v in (("a", values), ("b", off)))
    content = diff(a, b)
    (loss,) = content["logged"]
    assert (loss["state"], loss["common_steps"]) == ("parted", 4)
    assert (loss["bits"]["step"], loss["beyond"]["step"]) == (2, 3)
    assert content["results"]["state"] == "parted"
    assert content["results"]["told"].startswith("loss differs first, in step 2.")
    (loss,) = diff(a, b, "--tolerance", "0.5")["logged"]
    assert (loss["state"], loss["beyond"]) == ("within_tolerance", None)
    (loss,) = diff(a, b, "--tolerance", "0")["logged"]
    assert loss["beyond"]["step"] == 2
    assert "step 3" in shown(a, b).stdout


def test_equal_values_are_identical_and_nothing_is_to_explain(tmp_path: Path) -> None:
    values = {"loss": [1.0, math.nan, 0.25], "lr": [0.1, 0.1, 0.1]}
    content = diff(logged(tmp_path, "a", values), logged(tmp_path, "b", values))
    assert content["results"]["state"] == "identical"
    assert "same to the last bit, on 3 common steps" in content["results"]["told"]
    assert content["results"]["could_explain"] == []


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ({}, {"loss": [1.0, 2.0]}, "A logged none"),
        ({}, {}, "A and B logged none"),
        ({"loss": [1.0, 2.0]}, {"accuracy": [1.0, 2.0]}, "no name was logged by both at one step"),
        ({"loss": [1.0, None]}, {"loss": [None, 1.0]}, "no name was logged by both at one step"),
    ],
)
def test_nondeterminism_is_never_cried_where_there_is_nothing_to_compare(
    tmp_path: Path,
    a: Mapping[str, Sequence[float | None]],
    b: Mapping[str, Sequence[float | None]],
    told: str,
) -> None:
    places = logged(tmp_path, "a", a), logged(tmp_path, "b", b)
    content = diff(*places)
    assert content["results"] == {
        "state": "not_comparable",
        "told": f"Logged values cannot be compared: {told}.",
        "could_explain": [],
    }
    assert "determin" not in shown(*places).stdout


def test_an_open_cause_is_called_open_and_only_full_knowledge_leaves_determinism(
    tmp_path: Path, base: Summary
) -> None:
    folders = [
        logged(tmp_path, name, {"loss": values})
        for name, values in (("a", [1.0, 2.0]), ("b", [1.0, 3.0]))
    ]
    for folder in folders:
        (folder / "final_summary.txt").write_text("as it was", "utf-8")
        summary = copy.deepcopy(base)
        summary["run"].update(name=folder.name)
        (folder / "final_summary.json").write_text(json.dumps(summary), "utf-8")
    assert "operations that are not deterministic" in diff(*folders)["results"]["told"]

    def told_after(change: Change) -> str:
        path = folders[1] / "final_summary.json"
        path.write_text(json.dumps(changed(base, change)), "utf-8")
        return str(diff(*folders)["results"]["told"])

    told = told_after(lambda s: s["environment"]["git"].update(dirty=True))
    assert "the cause is open" in told
    assert "deterministic" not in told
    told = told_after(lambda s: s["environment"].update(seeds={}))
    assert "not recorded: seeds" in told
    told = told_after(lambda s: s["environment"]["seeds"].update(torch=7))
    assert told.endswith("Could explain it: seed of torch.")


@pytest.mark.parametrize("words", [[], ["one"], ["one", "two", "--tolerance", "-1"]])
def test_wrong_usage_has_exit_code_two(words: list[str]) -> None:
    assert shown(*words).exit_code == 2


def test_what_cannot_be_read_is_named(tmp_path: Path, base: Summary) -> None:
    good, bad = write(tmp_path, "a", base), tmp_path / "bad.json"
    bad.write_text("{", "utf-8")
    result = shown(good, bad)
    assert (result.exit_code, str(bad) in result.output) == (1, True)
