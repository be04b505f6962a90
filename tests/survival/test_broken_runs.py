"""A broken file takes no other one with it, and a lost manifest is made anew from the rank files."""

import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.test_store import make_step, make_totals
from traintrace import NewerSchemaError, RunReadError, open_run
from traintrace.runs.manifest import MANIFEST_NAME, Manifest
from traintrace.store import opening
from traintrace.store.writer import RankWriter
from traintrace_reporting.finish import read_or_make
from traintrace_reporting.schema import validate

from .conftest import Recorded, file_of, log_of

CopyOf = Callable[[Path], Path]
HEAD = b"SQLite format 3\0"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "its file is empty"),
        (HEAD, "not a database"),
        (HEAD + bytes(84), ""),
        (bytes(4096), ""),
        (b"no database " * 999, "not a database"),
    ],
    ids=["zero bytes", "16 bytes", "head only", "zeros", "garbage"],
)
def test_a_file_that_holds_nothing_is_a_rank_without_record(
    recorded: Recorded, copy_of: CopyOf, content: bytes, told: str
) -> None:
    copy = copy_of(recorded.closed)
    (copy / "ranks" / "rank-00001.sqlite").write_bytes(content)
    facts = open_run(copy).facts(["step"])
    assert [rank.rank for rank in facts.ranks] == [0]
    (warning,) = facts.warnings
    assert warning.startswith("rank 1 left no record: ")
    assert told in warning
    assert not any(str(copy) in text for text in facts.warnings), "a report names no path"
    assert read_or_make(copy)["run"]["ranks_seen"] == [0]


def test_another_program_s_database_is_no_record(recorded: Recorded, copy_of: CopyOf) -> None:
    copy = copy_of(recorded.closed)
    with sqlite3.connect(copy / "ranks" / "rank-00001.sqlite") as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    facts = open_run(copy).facts(["step"])
    assert facts.warnings == ["rank 1 left no record: not a traintrace rank file"]


def test_a_run_whose_files_are_all_broken_still_has_a_report(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.closed)
    file_of(copy).write_bytes(b"")
    summary = read_or_make(copy)
    assert summary["run"]["ranks_seen"] == []
    assert "rank 0 left no record: its file is empty" in summary["warnings"]


def test_a_file_that_another_program_holds_is_read_from_a_copy(
    recorded: Recorded, copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_BUSY_TIMEOUT_S", 0.05)
    copy = copy_of(recorded.closed)
    holder = sqlite3.connect(file_of(copy))
    holder.execute("BEGIN EXCLUSIVE")
    facts = open_run(copy).facts(["step"])
    holder.rollback()
    holder.close()
    assert len(facts.ranks[0].columns["step"]) == recorded.commits[-1][1]


def test_a_log_that_cannot_be_opened_where_it_lies_is_read_from_a_copy(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.killed)
    log_of(copy).with_name(f"{file_of(copy).name}-shm").mkdir()  # as on a read-only disk
    facts = open_run(copy).facts(["step"])
    assert len(facts.ranks[0].columns["step"]) == recorded.commits[-1][1]
    assert not facts.ranks[0].warnings


def test_a_newer_file_is_refused_and_not_taken_for_damage(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.closed)
    with sqlite3.connect(file_of(copy)) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(NewerSchemaError, match="upgrade"):
        open_run(copy).facts(["step"])


@pytest.mark.parametrize("content", [None, "", "{", '{"schema_version": 2}'])
def test_a_lost_manifest_is_made_anew(
    recorded: Recorded, copy_of: CopyOf, content: str | None
) -> None:
    original, copy = Manifest.read(recorded.closed), copy_of(recorded.closed)
    manifest = copy / MANIFEST_NAME
    manifest.unlink()
    if content is not None:
        manifest.write_text(content, "utf-8")
    run = open_run(copy)
    kept = ("name", "id", "plugin", "framework", "world_size", "nodes", "started_at", "status")
    assert {k: getattr(run.manifest, k) for k in kept} == {k: getattr(original, k) for k in kept}
    state = "missing" if content is None else "damaged"
    assert f"the run's manifest is {state}" in " ".join(read_or_make(copy)["warnings"])


def test_a_file_from_before_it_named_its_run_gives_a_manifest_too(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.closed)
    (copy / MANIFEST_NAME).unlink()
    with sqlite3.connect(file_of(copy)) as connection:
        connection.execute("DELETE FROM meta WHERE key IN ('run', 'process')")
    connection.close()
    manifest = open_run(copy).manifest
    assert (manifest.name, manifest.world_size, manifest.status) == (copy.name, 1, "completed")


def test_nothing_to_read_is_no_run(tmp_path: Path, recorded: Recorded) -> None:
    shutil.copytree(recorded.closed, tmp_path / "run")
    (tmp_path / "run" / MANIFEST_NAME).unlink()
    file_of(tmp_path / "run").write_bytes(b"")
    with pytest.raises(RunReadError, match="manifest"):
        open_run(tmp_path / "run")


@pytest.mark.parametrize("holds", [".run-id", "ranks/rank-00001.sqlite"])
def test_a_run_that_ended_before_it_was_announced_says_so(tmp_path: Path, holds: str) -> None:
    (tmp_path / "run" / "ranks").mkdir(parents=True)
    (tmp_path / "run" / holds).write_text("abc" if holds == ".run-id" else "")
    with pytest.raises(RunReadError, match="ended before any of its ranks had written anything"):
        open_run(tmp_path / "run")


def test_damaged_sums_are_made_of_the_steps_and_still_add_up(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.closed)
    with sqlite3.connect(file_of(copy)) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'counters'")
    connection.close()
    (rank,) = open_run(copy).facts(["step", "duration_ns"]).ranks
    totals = rank.totals
    assert totals.steps == recorded.commits[-1][1]
    assert sum(totals.account_ns.values()) == totals.wall_ns
    assert totals.wall_ns == sum(ns for ns in rank.columns["duration_ns"] if ns is not None)
    assert "its sums" in " ".join(rank.warnings)


@pytest.mark.parametrize("gone", ["cost", "counters", "setup", "status", "rank", "seen", "process"])
def test_a_report_without_some_of_the_description_keeps_to_its_schema(
    recorded: Recorded, copy_of: CopyOf, gone: str
) -> None:
    copy = copy_of(recorded.closed)
    with sqlite3.connect(file_of(copy)) as connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (gone,))
    connection.close()
    validate(read_or_make(copy))


def test_a_reader_that_looks_while_a_rank_ends_leaves_it_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.sqlite"
    writer = RankWriter(path)
    writer.write([make_step(1)], make_totals(1))
    reader = sqlite3.connect(path, check_same_thread=False)
    reader.execute("SELECT * FROM steps").fetchall()
    timer = threading.Timer(0.1, reader.close)
    timer.start()
    assert writer.close() is None
    timer.join()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
