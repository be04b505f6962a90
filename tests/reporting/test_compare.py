"""`traintrace compare`: verdict, files, threshold and exit codes, and what it makes of bad input."""

import copy
import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import CONTRACT, make_summary
from tests.labs.runs import CPU_STEP
from traintrace_reporting.cli import main
from traintrace_reporting.guard_contract import Contract

Summary = dict[str, Any]
SLOWER = {**CPU_STEP, "backward": 12.0}
THRESHOLD = "--max-step-time-regression-pct"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture(scope="module")
def made() -> dict[str, Summary]:
    """Summaries by name: two of the same code, one slower, one faster; all under one guard."""
    faster = {**CPU_STEP, "backward": 2.0}
    return {
        "a": make_summary("a", contract=CONTRACT),
        "same": make_summary("same", contract=CONTRACT, jitter=0.031),
        "slow": make_summary("slow", contract=CONTRACT, ms=SLOWER),
        "fast": make_summary("fast", contract=CONTRACT, ms=faster),
    }


@pytest.fixture
def place(tmp_path: Path, made: dict[str, Summary]) -> Callable[..., Path]:
    """A function that writes a summary, changed or not, and gives its path."""

    def write(summary: str | Summary, change: Callable[[Summary], Any] | None = None) -> Path:
        content = copy.deepcopy(made[summary] if isinstance(summary, str) else summary)
        if change is not None:
            change(content)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content), "utf-8")
        return path

    return write


def test_the_verdict_comes_first_and_blames_the_phase_in_files_of_the_published_shape(
    place: Callable[..., Path], tmp_path: Path
) -> None:
    base = tmp_path / "out" / "deep" / "cmp"
    result = run(place("a"), place("slow"), "--output", base)
    assert result.exit_code == 0, result.output
    page = result.stdout.splitlines()
    assert "REGRESSION" in "\n".join(page[:6])
    content = json.loads(base.with_name("cmp.json").read_text("utf-8"))
    schema = json.loads(
        files("traintrace_reporting.schema").joinpath("comparison.schema.json").read_text("utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(content, schema, cls=jsonschema.Draft202012Validator)
    assert (content["verdict"], content["guard"]) == ("REGRESSION", None)
    blamed = max(content["phases"], key=lambda one: one["difference_s"] or 0.0)
    assert (blamed["name"], blamed["judged"]) == ("backward", "regressed")
    assert blamed["difference_s"] == pytest.approx(0.006, rel=0.1)
    text = base.with_name("cmp.txt").read_text("utf-8")
    assert "backward" in text
    assert max(map(len, text.splitlines())) <= 80
    changes = [abs(one["difference_ms"] or 0.0) for one in content["metrics"]]
    assert changes == sorted(changes, reverse=True)


@pytest.mark.parametrize("options", [(), (THRESHOLD, 5)])
@pytest.mark.parametrize("other", ["device", "empty", "unguarded", "slow"])
def test_every_answer_has_the_published_shape_and_a_page_of_any_width(
    place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, other: str, options: Any
) -> None:
    made_now = {
        "device": lambda: make_summary("gpu", device_ms={"forward": 4.0, "backward": 6.0}),
        "empty": lambda: make_summary("empty", steps=0, contract=CONTRACT),
        "unguarded": lambda: make_summary("free"),
        "slow": lambda: make_summary("slow", ms=SLOWER, contract=CONTRACT),
    }
    pair = place("a"), place(made_now[other]())
    schema = files("traintrace_reporting.schema").joinpath("comparison.schema.json")
    for order in (pair, pair[::-1]):
        content = json.loads(run(*order, *options, "--json").stdout)
        jsonschema.validate(
            content, json.loads(schema.read_text("utf-8")), cls=jsonschema.Draft202012Validator
        )
        for width in (40, 60, 200):
            monkeypatch.setenv("COLUMNS", str(width))
            page = run(*order, *options).stdout.splitlines()
            assert max(map(len, page)) <= min(width, 120)


def test_json_goes_to_standard_output_alone(place: Callable[..., Path]) -> None:
    result = run(place("a"), place("slow"), "--json", THRESHOLD, 5)
    assert json.loads(result.stdout)["guard"]["outcome"] == "SLOWER"
    assert result.stderr.startswith("traintrace: SLOWER: step ")


@pytest.mark.parametrize(
    ("b", "threshold", "outcome", "code"),
    [
        ("slow", 5, "SLOWER", 4),
        ("slow", 1000, "WITHIN_THRESHOLD", 0),
        ("fast", 5, "FASTER", 0),
        ("same", 20, "WITHIN_THRESHOLD", 0),
        ("a", 20, "INCONCLUSIVE", 3),
    ],
)
def test_a_threshold_decides_the_exit_code(
    place: Callable[..., Path], tmp_path: Path, b: str, threshold: float, outcome: str, code: int
) -> None:
    base = tmp_path / "cmp"
    result = run(place("a"), place(b), THRESHOLD, threshold, "--output", base)
    assert result.exit_code == code, result.output
    content = json.loads((tmp_path / "cmp.json").read_text("utf-8"))
    guard = content["guard"]
    assert (guard["outcome"], guard["exit_code"]) == (outcome, code)
    assert guard["measured_steps"] == {"start": 5, "end": 104}
    assert content["a"][0]["first_step"] == 5
    assert outcome in result.stdout


def test_r12_one_line_names_the_phase_that_made_it_slower(place: Callable[..., Path]) -> None:
    result = run(place("a"), place("slow"), THRESHOLD, 20)
    assert result.exit_code == 4
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("SLOWER")]
    assert re.search(
        r"step \+5\d\.\d % \(limit 20 %\), mean 11\.\d+ -> 17\.\d+ ms, backward \+\d\.\d+ ms$", line
    )


def test_the_measured_steps_decide_and_not_the_rest_of_the_run(place: Callable[..., Path]) -> None:
    late = [6.0] * 104 + [60.0] * 96
    early = [60.0] * 110 + [6.0] * 90
    changed = make_summary("late", contract=CONTRACT, ms={**CPU_STEP, "backward": late})
    result = run(place("a"), place(changed), THRESHOLD, 20)
    assert result.exit_code == 0, result.output
    slower = make_summary("early", contract=CONTRACT, ms={**CPU_STEP, "backward": early})
    assert run(place("a"), place(slower), THRESHOLD, 20).exit_code == 4


def _drop_guard(summary: Summary) -> None:
    summary["guard"] = None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_drop_guard, "B declares no guard"),
        (lambda s: s["run"].update(status="failed"), "B has not completed: its status is failed"),
        (lambda s: s["guard"].update(launcher_completion=None), "launchers have not said"),
        (
            lambda s: s["guard"]["launcher_completion"].update(
                status="incomplete", reasons=["node_outcome_missing"]
            ),
            "B: training did not complete on all nodes (node_outcome_missing)",
        ),
        (lambda s: s["guard"]["measurement"].update(reason="few"), "not have all measured steps"),
        (lambda s: s["guard"]["expected"].update(nodes=2), "nodes (expected) is 1 in A and 2 in B"),
        (lambda s: s["run"].update(world_size=2), "world_size (seen) is 1 in A and 2 in B"),
        (lambda s: s["environment"].update(cpu="Xeon"), "the processor is EPYC in A and Xeon in B"),
        (lambda s: s["setup"].update(cpu_count=4), "the number of CPUs is 8 in A and 4 in B"),
    ],
)
def test_missing_or_unequal_evidence_is_inconclusive_and_says_why(
    place: Callable[..., Path], change: Callable[[Summary], Any], told: str
) -> None:
    result = run(place("a"), place("slow", change), THRESHOLD, 5)
    assert result.exit_code == 3, result.output
    assert told in " ".join(result.stdout.split())
    assert "INCONCLUSIVE" in result.stdout
    assert "No decision is made" in result.stdout


def test_another_declaration_is_inconclusive_and_names_what_differs(
    place: Callable[..., Path],
) -> None:
    other = make_summary("other", contract=Contract("digits", 5, 100, {"lr": "0.1"}))
    result = run(place("a"), place(other), THRESHOLD, 5)
    assert result.exit_code == 3
    told = " ".join(result.stdout.split())
    assert "workload.parameters.lr is 0.1 (a decimal number) in A and '0.1' (a text) in B" in told


def test_r05_a_device_clock_and_a_host_clock_give_no_difference(place: Callable[..., Path]) -> None:
    phases = {"forward": 4.0, "backward": 6.0, "optimizer": 1.0}
    on_device = make_summary("gpu", contract=CONTRACT, device_ms=phases)
    assert on_device["step_time"]["clock"] == "device"
    base = place(on_device).parent / "cmp"
    result = run(place("a"), place(on_device), "--output", base)
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("  step_time")]
    assert "%" not in row
    assert row.split()[3:] == ["-", "-", "-", "unknown"]
    assert result.exit_code == 0
    content = json.loads(base.with_name("cmp.json").read_text("utf-8"))
    assert content["verdict"] == "INCOMPARABLE"
    step = next(one for one in content["metrics"] if one["name"] == "step_time")
    assert step["difference_ms"] is None
    result = run(place("a"), place(on_device), THRESHOLD, 5)
    assert result.exit_code == 3
    assert "no common clock" in " ".join(result.stdout.split())


def test_without_a_step_nothing_is_judged(place: Callable[..., Path]) -> None:
    empty = make_summary("empty", steps=0, contract=CONTRACT)
    result = run(place("a"), place(empty))
    assert result.exit_code == 0
    assert "INCOMPARABLE" in result.stdout
    assert run(place("a"), place(empty), THRESHOLD, 5).exit_code == 3
    assert run(place(empty), place(empty), THRESHOLD, 5).exit_code == 3


def test_several_runs_a_side_are_taken_up_to_the_next_option(place: Callable[..., Path]) -> None:
    def renamed(number: int) -> Callable[[Summary], None]:
        return _set("run", "id", value=f"run-{number}")

    names = enumerate(("a", "same", "slow", "slow"))  # the same run twice would be no second one
    a, b, c, d = (place(name, renamed(number)) for number, name in names)
    result = run("--a", a, b, "--json", "--b", c, d)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert [len(content[side]) for side in "ab"] == [2, 2]
    assert content["error_basis"] == "runs"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["one"],
        ["--a", "one"],
        ["--a", "--b", "one"],
        ["--b"],
        ["one", "two", THRESHOLD, "-1"],
        ["one", "two", THRESHOLD, "nan"],
        ["one", "two", THRESHOLD, "five"],
        ["one", "two", "--output", "."],
        ["one/final_summary.json", "two", "--output", "one/final_summary"],
        ["one", "two", "--output", "two/final_summary.json"],
        ["one", "two", "--loud"],
        ["one", "--a", "two", "--b", "three"],
    ],
)
def test_wrong_usage_is_told_with_exit_code_two_before_anything_is_read(words: list[str]) -> None:
    assert run(*words).exit_code == 2


def _set(*place: str, value: object) -> Callable[[Summary], None]:
    def change(summary: Summary) -> None:
        inner: Any = summary
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value

    return change


def _measured(*place: str, value: object) -> Callable[[Summary], None]:
    return _set("guard", "measurement", *place, value=value)


_STEP = ("step_time", "metrics", "step_time")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            _set(*_STEP, "mean", value=float("nan")),
            "step_time.metrics.step_time.mean: not a finite",
        ),
        (_set(*_STEP, "mean", value=1e9), "step_time.metrics.step_time.mean"),
        (
            _measured("step_time", "window", "end_step", value=999),
            "guard.measurement.step_time.window",
        ),
        (_set("statistics", "metrics", "step_time", "log_mean", value=50.0), "log_mean"),
        (_set("statistics", "metrics", "step_time", "tau", value="much"), "tau"),
        (_set("run", "name", value="evil\x1b[31m"), "run.name"),
        (_set("schema_version", value="0.9"), "newer than this traintrace reads"),
        (_set("schema_version", value=3), "not a traintrace summary"),
        (_set("guard", "digest", value="0" * 64), "guard.digest"),
        (_set("guard", "declaration", "workload", "name", value="x "), "guard.workload.name"),
        (_set("run", "status", value="splendid"), "run/status"),
        (lambda summary: summary.pop("statistics"), "statistics"),
    ],
)
def test_bad_input_names_file_and_field_and_writes_nothing(
    place: Callable[..., Path], tmp_path: Path, change: Callable[[Summary], Any], field: str
) -> None:
    good, bad = place("a"), place("slow", change)
    before = sorted(tmp_path.rglob("*"))
    for order in ((good, bad), (bad, good)):
        for threshold in ((), (THRESHOLD, 5)):
            result = run(*order, "--output", tmp_path / "new" / "cmp", *threshold)
            assert result.exit_code == 1, result.output
            assert str(bad) in result.output
            assert field in result.output
            assert len(result.output.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ('{"name": "react", "version": "1.0"}', "not a traintrace summary"),
        ("[1]", "not a traintrace summary"),
        ('{"schema_version": "0.3", "schema_version": "0.3"}', "'schema_version' stands twice"),
        ('{"schema_version": "0.3", "run": 1e999}', "run: not a finite number"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_r18_what_is_no_summary_is_named_with_the_reason(
    place: Callable[..., Path], tmp_path: Path, text: str, told: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(text, "utf-8")
    result = run(place("a"), bad)
    assert result.exit_code == 1
    assert str(bad) in result.output
    assert told in result.output


def test_a_torn_or_missing_file_and_a_folder_without_a_run_are_named(
    place: Callable[..., Path], tmp_path: Path
) -> None:
    good = place("a")
    torn = tmp_path / "torn.json"
    torn.write_bytes(good.read_bytes()[:-500])
    (tmp_path / "empty").mkdir()
    for bad in (torn, tmp_path / "none.json", tmp_path / "empty"):
        result = run(good, bad)
        assert (result.exit_code, str(bad) in result.output) == (1, True), result.output


def test_an_older_summary_is_compared_as_far_as_it_goes(place: Callable[..., Path]) -> None:
    def older(summary: Summary) -> None:
        summary["schema_version"] = "0.2"
        summary["guard"] = None
        del summary["environment"]["cpu"], summary["environment"]["flags"]

    result = run(place("a", older), place("slow"))
    assert result.exit_code == 0, result.output
    assert "REGRESSION" in result.stdout
    assert run(place("a", older), place("slow"), THRESHOLD, 5).exit_code == 3


def test_names_that_are_markup_stay_names(place: Callable[..., Path]) -> None:
    result = run(place("a", _set("run", "name", value="[red]boo[/red]")), place("slow"))
    assert "[red]boo[/red]" in result.stdout


def test_files_that_cannot_be_written_are_named(place: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", "utf-8")
    result = run(place("a"), place("slow"), "--output", tmp_path / "taken" / "cmp")
    assert result.exit_code == 1
    assert str(tmp_path / "taken") in result.output
