"""Run folders: names, manifests, and clear errors for what cannot be read."""

import json
from pathlib import Path

import pytest

from tests.core.test_store import make_step, make_totals
from traintrace import RunReadError, list_manifests, open_run
from traintrace.errors import NewerSchemaError
from traintrace.facts import Environment
from traintrace.runs.folder import create_folder, rank_file
from traintrace.runs.manifest import Manifest
from traintrace.store.writer import RankWriter


def make_manifest(folder: Path, **changes: object) -> Manifest:
    content: dict[str, object] = {
        "name": folder.name,
        "id": "abc",
        "status": "completed",
        "exit_code": None,
        "plugin": "plain_torch",
        "plugin_version": "0.1.0",
        "framework": "torch",
        "framework_version": "2.13.0",
        "tool_version": "0.1.0",
        "started_at": 1.0,
        "ended_at": 2.0,
        "world_size": 1,
        "nodes": 1,
        "environment": Environment(python="3.11"),
        "folder": folder,
    }
    return Manifest(**(content | changes))  # type: ignore[arg-type]


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = create_folder(tmp_path, "run")
    manifest = make_manifest(folder)
    manifest.write()
    assert Manifest.read(folder) == manifest


def test_a_taken_name_gets_a_number_and_the_old_run_stays(tmp_path: Path) -> None:
    names = [create_folder(tmp_path, "run").name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b", "..", "", "x" * 500, "nul\0byte", "[red]hi[/]", "训" * 200]
)
def test_a_hostile_name_stays_inside_the_run_directory(tmp_path: Path, name: str) -> None:
    root = tmp_path / "runs"
    folder = create_folder(root, name)
    assert folder.resolve().parent == root.resolve()
    assert len(folder.name.encode()) <= 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[1]", "not a manifest"),
        ('{"schema_version": "1"}', "schema_version"),
        ('{"schema_version": 1}', "damaged"),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text, "utf-8")
    with pytest.raises(RunReadError, match=message) as caught:
        open_run(tmp_path)
    assert "manifest.json" in str(caught.value)


def test_a_manifest_with_an_unknown_status_is_refused(tmp_path: Path) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder, status="fine").write()
    with pytest.raises(RunReadError, match="fine"):
        open_run(folder)


def test_a_newer_manifest_is_refused_with_advice(tmp_path: Path) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder).write()
    path = folder / "manifest.json"
    content = json.loads(path.read_text("utf-8")) | {"schema_version": 99}
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(NewerSchemaError, match="upgrade"):
        open_run(folder)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunReadError, match="no run here"):
        open_run(tmp_path)
    with pytest.raises(RunReadError, match="no such run folder"):
        open_run(tmp_path / "missing")


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    for name, started in (("b", 2.0), ("a", 1.0)):
        make_manifest(create_folder(tmp_path, name), started_at=started).write()
    (tmp_path / "no run").mkdir()
    found, damaged = list_manifests(tmp_path)
    assert [manifest.name for manifest in found] == ["a", "b"]
    assert damaged == []


def test_a_damaged_manifest_hides_no_other_run(tmp_path: Path) -> None:
    make_manifest(create_folder(tmp_path, "good")).write()
    broken = create_folder(tmp_path, "broken") / "manifest.json"
    broken.write_text("{", "utf-8")
    found, damaged = list_manifests(tmp_path)
    assert [manifest.folder.name for manifest in found] == ["good"]
    assert [str(broken) in str(error) for error in damaged] == [True]


def test_a_rank_that_died_before_its_first_flush_takes_no_other_rank_with_it(
    tmp_path: Path,
) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder, world_size=2).write()
    meta = {"rank": 0, "attempt": 0, "node": 0, "status": "completed", "level": "host"}
    cost = {"hot_transition_ns": 1.0, "in_situ_transition_ns": None} | dict.fromkeys(
        ("setup_s", "finish_s", "drain_s"), 0.0
    )
    rest: dict[str, object] = {
        "device_clock": None,
        "setup": {},
        "cost": cost,
        "unmeasured": {},
        "warnings": [],
    }
    writers = [RankWriter(rank_file(folder, rank, 0)) for rank in (0, 1)]
    writers[0].write([make_step(1)], make_totals(1), meta=meta | rest)
    for writer in writers:
        writer.close()
    facts = open_run(folder).facts(["step"])
    assert [rank.rank for rank in facts.ranks] == [0]
    assert facts.world_size == 2
