"""The manifest: versions, what stands apart in it, changes, and what must never be in a run."""

import json
import os
import platform
import sqlite3
import tempfile
from pathlib import Path

import pytest

from tests.core.test_runfolder import make_manifest
from tests.labs.coresessions import start
from traintrace import RunReadError
from traintrace.facts import Environment
from traintrace.runs.folder import create_folder
from traintrace.runs.manifest import Manifest, NodeExit, TrainingOutcome, update

OUTCOME = TrainingOutcome(
    status="incomplete",
    nodes_expected=3,
    nodes_observed=2,
    reasons=("node_outcome_missing", "node_training_failed"),
    nodes=(NodeExit(0, 0), NodeExit(2, 137)),
)


def test_all_of_a_manifest_comes_back(tmp_path: Path) -> None:
    manifest = make_manifest(
        create_folder(tmp_path, "run"),
        launcher="torchrun",
        part_of="first",
        telemetry_status="partial",
        guard={"range": [1, 2]},
        training=OUTCOME,
        environment=Environment(python="3.11", seeds={"torch": 1}, git_dirty=True),
    )
    manifest.write()
    assert Manifest.read(manifest.folder) == manifest


def test_the_first_version_is_read(tmp_path: Path) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder).write()
    path = folder / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    for added in ("launcher", "part_of", "telemetry_status", "guard", "training"):
        del content[added]
    path.write_text(json.dumps(content | {"schema_version": 1}), "utf-8")
    manifest = Manifest.read(folder)
    assert manifest == make_manifest(folder)
    assert (manifest.telemetry_status, manifest.training) == ("unknown", None)


def test_an_update_changes_what_it_names(tmp_path: Path) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder, guard={"a": 1}).write()
    changed = update(folder, status="failed", exit_code=137, training=OUTCOME)
    assert changed == Manifest.read(folder)
    assert changed == make_manifest(
        folder, guard={"a": 1}, status="failed", exit_code=137, training=OUTCOME
    )
    left = sorted(path.name for path in folder.iterdir())
    assert left == [".run-id", "manifest.json", "ranks"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("telemetry_status", "good", "good"),
        ("training", {"status": "fine"}, "fine"),
        ("training", {"status": "completed"}, "damaged"),
        ("training", [], "damaged"),
        ("environment", None, "damaged"),
    ],
)
def test_a_manifest_with_an_impossible_part_is_refused(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder).write()
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: value}), "utf-8")
    with pytest.raises(RunReadError, match=message):
        Manifest.read(folder)


_NODES = [{"node_rank": 0, "exit_code": 0}]
_TRAINED = {"status": "completed", "nodes_expected": 1, "nodes_observed": 1, "reasons": []}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", True),
        ("schema_version", "2"),
        ("name", "a\x1b[31mb"),
        ("name", ""),
        ("name", "x" * 100_000),
        ("name", 7),
        ("id", None),
        ("status", ["completed"]),
        ("started_at", float("nan")),
        ("started_at", 1e300),
        ("started_at", "soon"),
        ("ended_at", -1.0),
        ("exit_code", "0"),
        ("exit_code", True),
        ("world_size", "2"),
        ("world_size", 0),
        ("world_size", 10**30),
        ("nodes", 1.5),
        ("guard", [1]),
        ("part_of", 3),
        ("unheard", 1),
        ("environment", {"python": 3}),
        ("environment", {"python": "3", "seeds": {"torch": "x"}}),
        ("environment", {"python": "3", "packages": ["torch"]}),
        ("training", _TRAINED | {"nodes": _NODES, "nodes_expected": "x"}),
        ("training", _TRAINED | {"nodes": [{"node_rank": 0, "exit_code": float("nan")}]}),
        ("training", _TRAINED | {"nodes": [3]}),
        ("training", _TRAINED | {"nodes": 3}),
        ("training", _TRAINED | {"nodes": _NODES, "reasons": "none"}),
    ],
)
def test_a_manifest_with_a_value_that_nobody_wrote_is_one_error_that_names_the_file(
    tmp_path: Path, key: str, value: object
) -> None:
    folder = create_folder(tmp_path, "run")
    make_manifest(folder).write()
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: value}), "utf-8")
    with pytest.raises(RunReadError) as caught:
        Manifest.read(folder)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < len(str(path)) + 200


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"world_size": ' + b"9" * 10_000 + b"}", b"\xff\xfe\x00", b"[]"]
)
def test_what_is_no_manifest_is_one_error_that_names_the_file(
    tmp_path: Path, content: bytes
) -> None:
    path = create_folder(tmp_path, "run") / "manifest.json"
    path.write_bytes(content)
    with pytest.raises(RunReadError) as caught:
        Manifest.read(path.parent)
    assert str(caught.value).startswith(f"{path}: ")


# Trains a little, logs, meets a disk that refuses, an error with a path in it and a taken name.
_SPEAKING = """
import warnings
from traintrace_plain_torch import trace
warnings.simplefilter("ignore")
(folder / "taken").mkdir(parents=True)
(folder / "taken" / "file").write_text("")
with trace(run_dir=folder, name="taken", print_report=False) as tracer:
    session = REGISTRY.current()
    session.faults.fault(OSError(13, "denied", str(folder)), "nothing")
    session._writer.fault = "database or disk is full"
    for _ in tracer.batches(range(3)):
        with tracer.step():
            pass
    raise SystemExit
"""


def _texts_of(path: Path) -> str:
    """Give all that a file says: of a database, every value of every table."""
    if path.suffix != ".sqlite":
        return path.read_text("utf-8", errors="replace")
    connection = sqlite3.connect(path)
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    rows = [row for name in tables for row in connection.execute(f"SELECT * FROM {name}")]
    connection.close()
    return repr(rows)


def test_a_run_holds_no_path_host_user_argument_or_value_of_the_environment(tmp_path: Path) -> None:
    secret = "hunter-two-is-secret"
    runs = tmp_path / "place-of-runs"
    with start(
        _SPEAKING, runs, "--password=swordfish-argument", SECRET_TOKEN=secret, USER="user-of-here"
    ) as process:
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    folder = runs / "taken-2"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {
        "manifest.json", "final_summary.json", "final_summary.txt", "rank-00000.sqlite",
    }  # fmt: skip
    forbidden = {
        secret, "swordfish-argument", "user-of-here", "place-of-runs", platform.node(),
        os.getcwd(), str(tmp_path), tempfile.gettempdir() + "/",
    }  # fmt: skip
    for path in files:
        said = _texts_of(path)
        assert [word for word in forbidden if word in said] == [], path.name


def test_a_path_that_cannot_be_written_is_told_and_not_recorded(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked-place"
    blocked.write_text("a file")
    script = """
    session = open_session(folder, print_report=False)
    session.finish("completed")
    print(session.folder)
    """.replace("\n    ", "\n")
    with start(script, blocked, TMPDIR=str(tmp_path)) as process:
        printed, errors = process.communicate(timeout=60)
    assert "blocked-place" in errors
    folder = Path(printed.strip())
    assert folder.is_relative_to(tmp_path)
    for path in folder.rglob("*"):
        if path.is_file():
            assert "blocked-place" not in _texts_of(path), path.name
    assert "cannot be written" in _texts_of(folder / "ranks/rank-00000.sqlite")
