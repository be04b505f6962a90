"""Events: bounded, with their lengths, and of files that an older version wrote."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.test_store import make_step, make_totals
from traintrace import accounts as A
from traintrace import facts
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.recording.eventlog import EventLog
from traintrace.recording.occurrences import Occurrence, OccurrenceQueue
from traintrace.session import Session
from traintrace.store.reader import RankReader
from traintrace.store.writer import RankWriter
from traintrace.testing import FakeClock

# The tables of schema 1, as they were.
_ACCOUNTS = (
    "input_wait h2d batch_prep forward backward gradient_sync optimizer communication clip callbacks "
    "user other"
).split()
_PHASES = "input_wait h2d forward backward optimizer".split()
_VERSION_1 = f"""
CREATE TABLE steps (step INTEGER PRIMARY KEY, framework_step INTEGER, epoch INTEGER,
    micro_batches INTEGER, samples INTEGER, tokens INTEGER, padded_tokens INTEGER, start_ns INTEGER,
    open_ns INTEGER, duration_ns INTEGER, {", ".join(f"{name}_ns INTEGER" for name in _ACCOUNTS)},
    {", ".join(f"{name}_calls INTEGER" for name in _PHASES)},
    {", ".join(f"{name}_device_ns INTEGER" for name in _PHASES)},
    peak_allocated_bytes INTEGER, peak_reserved_bytes INTEGER, rss_bytes INTEGER, flags INTEGER);
CREATE TABLE spans (step INTEGER, account TEXT, inside INTEGER, ns INTEGER, calls INTEGER);
CREATE TABLE regions (step INTEGER, name TEXT, ns INTEGER, calls INTEGER);
CREATE TABLE scalars (step INTEGER, name TEXT, value REAL);
CREATE TABLE events (at_ns INTEGER, kind TEXT, step INTEGER, detail TEXT);
CREATE TABLE totals (account TEXT PRIMARY KEY, ns INTEGER, inside_ns INTEGER, calls INTEGER);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
INSERT INTO steps (step, forward_ns, flags) VALUES (1, 70, 16), (2, 80, 0);
INSERT INTO events VALUES (1000, 'exception', 2, 'ValueError');
INSERT INTO totals VALUES ('forward', 150, 150, 2);
PRAGMA user_version = 1;
"""


class Run:
    """A session on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.session = Session(
            TraceOptions(run_dir=folder), PluginIdentity("test", "0", "none", "0"), Ports(),
            now=self.clock,
        )  # fmt: skip
        self.session.begin()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms * 1_000_000)

    def spend(self, account: int, ms: int) -> None:
        self.session.journal.write(account)
        self.pass_time(ms)
        self.session.journal.write(~account)

    def step(self, epoch: int | None = None) -> None:
        self.spend(A.INPUT_WAIT, 10)
        self.session.capture.epoch = epoch
        self.session.capture.complete()

    def events(self) -> list[tuple[Any, ...]]:
        self.session.finish("completed")
        rank = self.session.as_run().facts(["step"]).ranks[0]
        start = rank.totals.start_ns
        return [
            (e.kind, e.step, (e.at_ns - start) // 1_000_000, e.duration_ns and e.duration_ns / 1e6, e.detail)
            for e in rank.events
            if e.kind != "gc"
        ]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.session.finish("completed")


def test_evaluation_checkpoint_and_epochs_have_lengths(run: Run) -> None:
    run.step(epoch=0)
    run.spend(A.EVALUATION, 30)
    run.step(epoch=0)
    run.spend(A.CHECKPOINT, 5)
    run.step(epoch=1)
    run.spend(A.PREDICTION, 7)
    # In the order in which they ended, or as far as one flush holds them, began.
    assert sorted(run.events()) == [
        ("checkpoint", 3, 50, 5.0, ""),
        ("epoch", 1, 0, 50.0, "0"),
        ("epoch", 3, 50, 15.0, "1"),
        ("evaluation", 2, 10, 30.0, ""),
        ("prediction", 4, 65, 7.0, ""),
    ]


def test_an_evaluation_that_is_published_in_parts_is_one_event(run: Run) -> None:
    run.step()
    run.session.journal.write(A.EVALUATION)
    for _ in range(3):
        run.pass_time(20)
        run.session.journal.cut(None)
        run.session.flush()
    run.session.journal.write(~A.EVALUATION)
    run.step()
    assert run.events() == [("evaluation", 2, 10, 60.0, "")]


def test_an_exception_has_no_length(run: Run) -> None:
    run.step()
    run.session.finish("failed", ValueError("with an argument"))
    assert run.events() == [("exception", 2, 10, None, "ValueError")]


def test_too_many_events_are_counted_and_no_kind_takes_all_the_room() -> None:
    log = EventLog(limit=5, limit_of_a_kind=3, reserved=1)
    for kind in ["gc"] * 6 + ["evaluation"] * 2 + ["exception"]:
        log.add_occurrence(Occurrence(kind, 10, 4), step=1, offset_ns=100)
    kept = log.take()
    # The last one came when all the room was taken: each kind has some of its own.
    assert [event.kind for event in kept] == ["gc"] * 3 + ["evaluation"] * 2 + ["exception"]
    assert (kept[0].at_ns, kept[0].duration_ns) == (110, 4)
    assert log.dropped == 3
    assert log.take() == []
    log.add_occurrence(Occurrence("gc", 10, 4), step=1, offset_ns=0)  # the bound is for the run
    assert (log.take(), log.dropped) == ([], 4)


def test_a_run_with_too_many_events_says_so_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.session._drain, "_events", EventLog(limit=2, reserved=0))
    with pytest.warns(TraintraceWarning, match="counted and not kept") as caught:
        for _ in range(3):
            run.step()
            run.spend(A.CHECKPOINT, 1)
            run.session.journal.cut(None)
            run.session.flush()
        assert len(run.events()) == 2
    assert len(caught) == 1
    totals = run.session.as_run().facts(["step"]).ranks[0].totals
    assert totals.dropped_events == 1


def test_a_queue_that_nobody_empties_is_bounded() -> None:
    queue = OccurrenceQueue(limit=2)
    for start in range(5):
        queue.add(Occurrence("evaluation", start, 1))
    assert [one.start_ns for one in queue.take()] == [0, 1]
    assert queue.lost == 3


def test_a_file_of_schema_1_reads_and_what_it_lacks_is_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(_VERSION_1)
        counters = {"wall_ns": 150, "start_ns": 1, "steps": 2, "steps_aborted": 0}
        connection.execute("INSERT INTO meta VALUES ('counters', ?)", (json.dumps(counters),))
    connection.close()
    reader = RankReader(str(path))
    assert reader.events() == [facts.Event(1000, "exception", 2, "ValueError", None)]
    columns = reader.columns(["step", "forward_ns", "gc_ns", "flags"])
    assert columns == {
        "step": [1, 2], "forward_ns": [70, 80], "gc_ns": [None, None], "flags": [16, 0],
    }  # fmt: skip
    totals = reader.totals()
    assert (totals.steps, totals.steps_abandoned, totals.dropped_events) == (2, 0, 0)
    assert totals.gc_ns is None
    reader.close()


def test_lengths_and_collections_come_back_as_they_were_written(tmp_path: Path) -> None:
    writer = RankWriter(tmp_path / "rank-00000.sqlite")
    written = [facts.Event(5, "gc", 1, "", 7), facts.Event(6, "exception", 1, "E", None)]
    writer.write([make_step(1)], make_totals(), events=written)
    reader = RankReader(writer.location)
    assert reader.events() == written
    reader.close()
    writer.close()
