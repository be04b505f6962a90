"""What the nodes' records say together, and every way in which a record can be wrong."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from traintrace.launch import Ended, NodeOutcome, collect_outcomes, write_outcome
from traintrace.launch.outcome import MAX_BYTES
from traintrace.runs.manifest import NodeExit

FIRST = NodeOutcome(
    run="r", run_id="1f", node_rank=0, nodes=2, nproc_per_node=4, contract="sha256:0", exit_code=0, ended_at=5.5
)  # fmt: skip
SECOND = replace(FIRST, node_rank=1)


def path_of(folder: Path, node: int) -> Path:
    return folder / "nodes" / f"node-{node:03d}" / "outcome.json"


def collected(folder: Path, *outcomes: NodeOutcome, nodes: int = 2) -> tuple[tuple[str, ...], int]:
    for outcome in outcomes:
        write_outcome(folder, outcome)
    result = collect_outcomes(folder, nodes, deadline_s=0.05)
    assert (result.status == "completed") == (not result.reasons)
    assert result.nodes_expected == nodes
    assert result.nodes_observed == len(result.nodes)
    return tuple(result.reasons), result.nodes_observed


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    failed = replace(
        FIRST, exit_code=137, signal=9, run_id=None, contract=None, nproc_per_node=None
    )
    assert failed.ended == Ended(137, 9)
    for outcome in (FIRST, failed):
        write_outcome(tmp_path, outcome)
        text = path_of(tmp_path, 0).read_bytes()
        assert NodeOutcome.from_json(text) == outcome
        content = json.loads(text)
        assert content["schema_version"] == 1
        assert content["status"] == ("completed" if outcome is FIRST else "failed")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["outcome.json"]


def test_training_is_completed_when_every_node_says_so(tmp_path: Path) -> None:
    assert collected(tmp_path, FIRST, SECOND) == ((), 2)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_records_travel_by_url(tmp_path: Path, place: str) -> None:
    url = f"file://{tmp_path}/runs/r" if place == "file" else f"memory://{tmp_path.name}/runs/r"
    for outcome in (FIRST, SECOND):
        write_outcome(url, outcome)
    result = collect_outcomes(url, 2, deadline_s=0.05)
    assert result.status == "completed"
    assert tuple(result.nodes) == (NodeExit(0, 0), NodeExit(1, 0))


def test_a_node_that_did_not_write_is_missing(tmp_path: Path) -> None:
    assert collected(tmp_path, FIRST) == (("node_outcome_missing",), 1)


def test_a_failure_is_told_with_its_exit_code(tmp_path: Path) -> None:
    assert collected(tmp_path, FIRST, replace(SECOND, exit_code=143, signal=15)) == (
        ("node_training_failed",), 2,
    )  # fmt: skip
    assert collect_outcomes(tmp_path, 2, 0).nodes[1] == NodeExit(1, 143)


@pytest.mark.parametrize(
    "change",
    [{"run": "another"}, {"run_id": "2e"}, {"nodes": 3}, {"nproc_per_node": 8}, {"contract": None}],
)
def test_a_record_of_another_run_topology_or_contract_is_in_conflict(
    change: dict[str, Any], tmp_path: Path
) -> None:
    assert collected(tmp_path, FIRST, replace(SECOND, **change)) == (("node_outcome_conflict",), 1)


def test_a_record_in_another_nodes_place_is_in_conflict(tmp_path: Path) -> None:
    write_outcome(tmp_path, FIRST)
    path_of(tmp_path, 1).parent.mkdir()
    path_of(tmp_path, 1).write_text(FIRST.to_json(), "utf-8")
    assert collected(tmp_path) == (("node_outcome_conflict",), 1)


def test_what_is_expected_may_be_given(tmp_path: Path) -> None:
    for outcome in (FIRST, SECOND):
        write_outcome(tmp_path, outcome)
    assert collect_outcomes(tmp_path, 2, 0, expected=FIRST).status == "completed"
    other = collect_outcomes(tmp_path, 2, 0, expected=replace(FIRST, contract="sha256:1"))
    assert other.reasons == ("node_outcome_conflict",)
    assert other.nodes_observed == 0


def test_one_launcher_that_does_not_know_the_id_is_no_conflict(tmp_path: Path) -> None:
    assert collected(tmp_path, FIRST, replace(SECOND, run_id=None)) == ((), 2)


def damage(**changes: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **changes})


DAMAGED: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "cut": lambda text: text[:-20],
    "no JSON": lambda _: "\x00\x01",
    "a list": lambda text: f"[{text}]",
    "nested without end": lambda _: "[" * 50_000,
    "not a number": lambda text: text.replace("5.5", "NaN"),
    "infinite": lambda text: text.replace("5.5", "1e999"),
    "too large": lambda text: text + " " * MAX_BYTES,
    "newer": damage(schema_version=2),
    "version as text": damage(schema_version="1"),
    "version true": damage(schema_version=True),
    "unknown key": damage(host="node-7"),
    "missing key": lambda text: text.replace('"run_id": "1f",', ""),
    "status against code": damage(status="failed"),
    "status unknown": damage(status="fine"),
    "code as text": damage(exit_code="0"),
    "code true": damage(exit_code=False),
    "code out of range": damage(exit_code=256, status="failed"),
    "code negative": damage(exit_code=-9, status="failed"),
    "code null": damage(exit_code=None),
    "signal out of range": damage(signal=0),
    "rank negative": damage(node_rank=-1),
    "nodes zero": damage(nodes=0),
    "run without name": damage(run=""),
    "run a number": damage(run=7),
    "ended never": damage(ended_at=None),
    "ended as text": damage(ended_at="now"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_invalid(name: str, tmp_path: Path) -> None:
    write_outcome(tmp_path, FIRST)
    path_of(tmp_path, 1).parent.mkdir()
    path_of(tmp_path, 1).write_text(DAMAGED[name](SECOND.to_json()), "utf-8")
    assert collected(tmp_path) == (("node_outcome_invalid",), 1)


def test_a_record_that_cannot_be_read_is_invalid(tmp_path: Path) -> None:
    path_of(tmp_path, 1).mkdir(parents=True)  # a folder has its place
    assert collected(tmp_path, FIRST) == (("node_outcome_invalid",), 1)


def test_a_collection_that_fails_says_so(tmp_path: Path) -> None:
    result = collect_outcomes("no-such-scheme://place/run", 2, deadline_s=0)
    assert result.status == "incomplete"
    assert tuple(result.reasons) == ("node_outcome_collection_failed",)
    assert (result.nodes_expected, result.nodes_observed) == (2, 0)


def test_several_reasons_are_given_in_one_order(tmp_path: Path) -> None:
    four = replace(FIRST, nodes=4, exit_code=1)
    write_outcome(tmp_path, four)
    write_outcome(tmp_path, replace(four, node_rank=1, run="x"))
    path_of(tmp_path, 2).parent.mkdir()
    path_of(tmp_path, 2).write_text("{}", "utf-8")
    assert collected(tmp_path, nodes=4) == (
        ("node_outcome_missing", "node_outcome_invalid", "node_outcome_conflict", "node_training_failed"), 1,
    )  # fmt: skip


def test_a_node_that_is_late_is_waited_for(tmp_path: Path) -> None:
    write_outcome(tmp_path, FIRST)
    late = threading.Timer(0.3, write_outcome, (tmp_path, SECOND))
    late.start()
    began = time.monotonic()
    assert collect_outcomes(tmp_path, 2, deadline_s=30).status == "completed"
    assert 0.29 <= time.monotonic() - began < 20
    late.join()


def test_a_place_that_cannot_be_written_is_an_error_of_the_writer(tmp_path: Path) -> None:
    (tmp_path / "nodes").touch()
    with pytest.raises(OSError, match="nodes"):
        write_outcome(tmp_path, FIRST)
