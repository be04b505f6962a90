"""More than two runs: their order, what is left out of the trend, and when there is one."""

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP
from traintrace.runs.manifest import Manifest
from traintrace_analysis.comparison.trend import run_trend
from traintrace_reporting.cli import main

Summary = dict[str, Any]
CREEPING = (6.0, 6.5, 7.0, 7.5, 8.0)
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def nightly(number: int, backward_ms: float, **changes: Any) -> Summary:
    summary = make_summary(f"night-{number}", ms={**CPU_STEP, "backward": backward_ms}, **changes)
    summary["run"]["started_at"] += 86_400.0 * number
    return summary


def write(folder: Path, summaries: Sequence[Summary]) -> list[Path]:
    places = []
    for number, summary in enumerate(summaries):
        places.append(folder / f"{number}.json")
        places[-1].write_text(json.dumps(summary), "utf-8")
    return places


def test_runs_are_shown_in_their_order_with_a_trend_in_files_of_the_published_shape(
    tmp_path: Path,
) -> None:
    places = write(tmp_path, [nightly(number, ms) for number, ms in enumerate(CREEPING)])
    result = run("compare", *reversed(places), "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = [line.split()[0] for line in result.stdout.splitlines()[1:6]]
    assert names == [f"night-{number}" for number in range(5)]
    assert "Steps get slower: +" in result.stdout
    content = json.loads((tmp_path / "out.json").read_text("utf-8"))
    schema = files("traintrace_reporting.schema").joinpath("trend.schema.json").read_text("utf-8")
    jsonschema.validate(content, json.loads(schema), cls=jsonschema.Draft202012Validator)
    assert content["trend"]["state"] == "slower"
    assert content["runs"][0]["change"] == 0.0
    assert content["runs"][-1]["change"] == pytest.approx(2.0 / 11.8, abs=0.01)
    printed = [line.rstrip() for line in result.stdout.splitlines()]
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines() == printed


def test_a_run_that_cannot_be_compared_is_shown_and_left_out_with_the_reason(
    tmp_path: Path,
) -> None:
    summaries = [nightly(number, 6.0) for number in range(5)]
    summaries[2]["run"]["status"] = "failed"
    summaries[3]["setup"]["cpu_count"] = 64
    content = json.loads(run("compare", *write(tmp_path, summaries), "--json").stdout)
    left_out = [row["left_out"] for row in content["runs"]]
    assert left_out[2] == "it is failed"
    assert "CPU count: 8 in A, 64 in B" in left_out[3]
    assert [left_out[0], left_out[1], left_out[4]] == [None] * 3
    assert content["trend"]["state"] == "too_few"
    page = run("compare", *write(tmp_path, summaries)).stdout
    assert "Left out of the trend: night-2: it is failed." in page


def test_a_threshold_wants_two_sides(tmp_path: Path) -> None:
    places = write(tmp_path, [nightly(number, 6.0) for number in range(3)])
    assert run("compare", *places, "--max-step-time-regression-pct", 5).exit_code == 2


def test_a_bad_file_among_many_is_named(tmp_path: Path) -> None:
    places = write(tmp_path, [nightly(number, 6.0) for number in range(3)])
    places[1].write_text("{", "utf-8")
    result = run("compare", *places, "--output", tmp_path / "out")
    assert (result.exit_code, str(places[1]) in result.output) == (1, True)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("means", "state"),
    [
        ([10.0 * level for level in NOISE], "none"),
        ([10.0] * 6, "none"),
        ([10.0, 10.5, 11.0, 11.6, 12.2], "slower"),
        ([12.2, 11.6, 11.0, 10.5, 10.0], "faster"),
        ([10.0, 20.0, 30.0], "too_few"),
        ([], "too_few"),
    ],
)
def test_a_trend_is_told_only_beyond_chance(means: list[float], state: str) -> None:
    assert run_trend(means).state == state


def test_a_trend_has_its_size_and_an_interval_around_it() -> None:
    found = run_trend([10.0 * 1.02**number * NOISE[number] for number in range(6)])
    assert found.per_run is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.per_run < found.high
    assert found.low < 0.02 < found.high
    with pytest.raises(ValueError, match="means_ms"):
        run_trend([1.0, 0.0])


def test_list_tells_the_trend_of_runs_that_are_alike(
    tmp_path: Path, new_manifest: Callable[..., Manifest]
) -> None:
    for number, ms in enumerate(CREEPING):
        summary = nightly(number, ms)
        folder = tmp_path / f"night-{number}"
        new_manifest(folder, name=folder.name, started_at=summary["run"]["started_at"])
        (folder / "final_summary.json").write_text(json.dumps(summary), "utf-8")
    result = run("list", tmp_path)
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-1]
    assert last.startswith("night-4 and 4 like it: Steps get slower: +")
    other = tmp_path / "night-4" / "final_summary.json"
    summary = json.loads(other.read_text("utf-8"))
    summary["environment"]["fingerprint"] = "0" * 16
    other.write_text(json.dumps(summary), "utf-8")
    last = run("list", tmp_path).stdout.splitlines()[-1]
    assert last.startswith("night-3 and 3 like it: Steps get slower"), (
        "one of another set-up is left out"
    )
