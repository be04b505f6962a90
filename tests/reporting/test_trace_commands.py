"""`traintrace report --trace` and `traintrace compare --trace-a --trace-b`, and the section that they show."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Group

from tests.labs.kineto import NCCL, KinetoFile
from tests.labs.runs import make_rank, make_run
from traintrace_analysis import analyse
from traintrace_plain_torch import trace
from traintrace_reporting.cli import main
from traintrace_reporting.lenses import communication, communication_rows
from traintrace_reporting.text import as_text
from traintrace_reporting.traces.places import given_traces


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments])


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with trace(run_dir=tmp_path, name="run", print_report=False) as tracer:
        for _ in range(3):
            with tracer.step():
                pass
    return tmp_path / "run"


def ddp(rank: int, late_us: float = 0.0) -> KinetoFile:
    """Two steps of 1 ms: 700 us of compute, 300 us of communication of which compute hides 100."""
    file = KinetoFile(rank)
    file.steps(0, 1_000, 2_000, first=3, name="traintrace.step")
    for start in (0.0, 1_000.0):
        file.kernel(start + 10, start + 700, launched=start + 10)
        file.kernel(start + 600 + late_us, start + 900, NCCL, stream=20, launched=start + 500)
    return file


def test_a_report_takes_the_traces_that_are_named_and_writes_no_files(
    recorded: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in recorded.rglob("*")}
    path = ddp(0).write(tmp_path / "one.json")
    result = run("report", recorded, "--trace", path, "--json")
    assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    assert {path: path.stat().st_mtime_ns for path in recorded.rglob("*")} == before


@pytest.mark.parametrize("content", [b"", b"{}", b"hello"])
def test_a_trace_that_cannot_be_read_ends_the_report_and_is_named(
    content: bytes, recorded: Path, tmp_path: Path
) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    result = run("report", recorded, "--trace", path)
    assert result.exit_code == 1
    assert "odd.json" in result.stderr
    assert result.stdout == ""


def test_a_summary_file_takes_no_trace(recorded: Path, tmp_path: Path) -> None:
    result = run(
        "report", recorded / "final_summary.json", "--trace", ddp(0).write(tmp_path / "t.json")
    )
    assert result.exit_code == 2


def test_a_damaged_trace_of_the_run_itself_costs_the_trace_and_not_the_report(
    recorded: Path,
) -> None:
    (recorded / "traces").mkdir()
    (recorded / "traces/rank-00000.json.gz").write_bytes(b"nonsense")
    (recorded / "final_summary.json").unlink()
    result = run("report", recorded, "--json")
    assert result.exit_code == 0, result.output
    assert any("rank-00000.json.gz" in warning for warning in json.loads(result.stdout)["warnings"])


def shown(tmp_path: Path, *files: KinetoFile) -> tuple[dict[str, Any], str]:
    for number, file in enumerate(files):
        content = gzip.compress(file.text().encode())
        (tmp_path / f"rank{number}.json.gz").write_bytes(content)
    facts = make_run(*(make_rank(rank=number) for number in range(len(files))))
    section = communication.section(analyse(facts, traces=given_traces([tmp_path])))
    assert section is not None
    json.dumps(section, allow_nan=False)
    return section, as_text(Group(*communication_rows.rows({"communication": section}, 80)))


def test_the_section_says_what_each_device_did(tmp_path: Path) -> None:
    section, text = shown(tmp_path, ddp(0), ddp(1, late_us=50.0))
    first, second = (one["devices"][0] for one in section["traces"])
    assert first["exposed_ms"] == pytest.approx(0.4)
    assert first["overlapped_ms"] == pytest.approx(0.2)
    assert first["exposed_ms_by_step"] == pytest.approx([0.2, 0.2])
    assert first["busy_ms"] + first["idle_ms"] == pytest.approx(first["span_ms"])
    assert first["host_bound_ms"] + first["waiting_ms"] == pytest.approx(first["idle_ms"])
    assert (first["late_wait_ms"], second["late_wait_ms"]) == pytest.approx(
        (0.0, 0.0)
    )  # compute hides it
    assert section["late_share_by_rank"] == {"0": 0.0, "1": 1.0}
    assert "trace of steps 3 to 4" in text
    assert "rank 0 dev 0" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    for width in (40, 60, 78):
        narrow = Group(*communication_rows.rows({"communication": section}, width))
        assert "exposedlate" not in as_text(narrow)


def test_the_section_of_a_run_without_traces_tells_the_shared_waits() -> None:
    ms = {
        "input_wait": 1.0,
        "forward": 4.0,
        "backward": 6.0,
        "optimizer": 1.0,
        "gradient_sync": 2.0,
    }
    facts = make_run(*(make_rank(rank=number, ms=ms) for number in range(2)))
    section = communication.section(analyse(facts))
    assert section is not None
    assert section["shared_wait_ms"] == pytest.approx(2.0, rel=0.05)
    text = as_text(Group(*communication_rows.rows({"communication": section}, 80)))
    assert "no rank waits less than" in text


@pytest.mark.parametrize("odd", [None, {}, [], 5, {"traces": [{"devices": [{}]}]}, {"traces": [3]},
                                 {"pipeline": {"bubble_share": 0.5}}, {"shared_wait_ms": 1.0}])  # fmt: skip
def test_a_section_that_was_edited_by_hand_disturbs_nothing(odd: Any) -> None:
    list(communication_rows.rows({"communication": odd}, 80))


def test_one_rank_without_a_trace_has_no_section() -> None:
    assert communication.section(analyse(make_run(make_rank()))) is None


def test_comparing_traces_needs_both_sides_and_names_what_it_cannot_read(tmp_path: Path) -> None:
    path = ddp(0).write(tmp_path / "one.json")
    assert run("compare", "--trace-a", path).exit_code == 2
    missing = run("compare", "--trace-a", path, "--trace-b", tmp_path / "none.json")
    assert missing.exit_code == 1
    assert "none.json" in missing.stderr


def test_runs_and_traces_compare_on_one_page(recorded: Path, tmp_path: Path) -> None:
    path = ddp(0).write(tmp_path / "one.json")
    sides = ("compare", recorded, recorded, "--trace-a", path, "--trace-b", path)
    result = run(*sides)
    assert result.exit_code == 0, result.output
    assert "exposed communication" in result.stdout
    assert run(*sides, "--json").exit_code == 2
