"""A framework that starts over in the same process: the steps so far count no more."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from traintrace import accounts as A
from traintrace.facts import ABANDONED, WARMUP
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.session import Session
from traintrace.testing import FakeClock
from traintrace_analysis import analyse
from traintrace_analysis.columns import REQUIRED_COLUMNS

COLUMNS = (*REQUIRED_COLUMNS, "epoch", "micro_batches")


class Run:
    """A session on a clock of its own; `step` takes 100 ms of forward."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.clock = FakeClock()
        self.session = Session(
            TraceOptions(run_dir=folder, **options),
            PluginIdentity("test", "0", "none", "0"),
            Ports(),
            now=self.clock,
        )
        self.session.begin()

    def step(self, epoch: int = 0, samples: int = 8, ms: int = 100) -> None:
        session, clock = self.session, self.clock
        clock.advance(1_000_000)
        session.journal.write(A.INPUT_WAIT)
        clock.advance(2_000_000)
        session.journal.write(~A.INPUT_WAIT)
        session.capture.micro_batches += 1
        session.capture.count(samples)
        session.capture.epoch = epoch
        session.journal.write(A.FORWARD)
        clock.advance(ms * 1_000_000)
        session.journal.write(~A.FORWARD)
        session.capture.complete()

    def read(self) -> Any:
        self.session.finish("completed")
        return self.session.as_run().facts(COLUMNS)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.session.finish("completed")


@pytest.mark.parametrize("flushed", [True, False])
def test_what_was_completed_before_counts_no_more(run: Run, flushed: bool) -> None:
    for _ in range(3):
        run.step(samples=64)
    if flushed:
        run.session.flush()  # its rows are in the file already
    run.session.journal.write(A.INPUT_WAIT)  # the step that did not fit
    run.clock.advance(5_000_000)
    run.session.abandon_steps()
    for _ in range(4):
        run.step(samples=32)
    facts = run.read()
    rank = facts.ranks[0]
    totals = rank.totals
    assert (totals.steps, totals.steps_aborted, totals.steps_abandoned) == (4, 4, 3)
    assert (totals.micro_batches, totals.samples, totals.epochs) == (4, 4 * 32, 1)
    assert totals.account_ns["aborted"] == 3 * 102_000_000 + 5_000_000
    assert totals.account_ns["forward"] == totals.inside_ns["forward"] == 400_000_000
    assert sum(totals.account_ns.values()) == totals.wall_ns
    assert rank.columns["step"] == [1, 2, 3, 4, 5, 6, 7]
    flags = [bool(flag & ABANDONED) for flag in rank.columns["flags"]]
    assert flags == [True] * 3 + [False] * 4


def test_an_account_that_was_only_in_abandoned_steps_is_gone_from_the_totals(run: Run) -> None:
    run.session.journal.write(A.INPUT_WAIT)
    run.session.journal.write(~A.INPUT_WAIT)
    run.session.journal.write(A.CLIP)
    run.clock.advance(7_000_000)
    run.session.journal.write(~A.CLIP)
    run.session.capture.complete()
    run.session.flush()
    run.session.abandon_steps()
    run.step()
    totals = run.read().ranks[0].totals
    assert "clip" not in totals.account_ns
    assert sum(totals.account_ns.values()) == totals.wall_ns


def test_the_analysis_leaves_abandoned_steps_out(run: Run) -> None:
    for _ in range(20):
        run.step(samples=64, ms=300)
    run.session.abandon_steps()
    run.session.log("loss", 1.0)
    for _ in range(30):
        run.step(samples=32)
    analysis = analyse(run.read())
    assert list(analysis.window.steps) == list(range(21, 51))
    assert analysis.metrics["forward"].mean_ms == 100.0
    assert analysis.counts.steps == 30
    assert analysis.counts.samples == 30 * 32
    assert analysis.series.step[0] == 21
    assert analysis.throughput.steps_per_s.step == pytest.approx(1 / 0.102)
    assert analysis.throughput.steps_per_s.round_trip == pytest.approx(1 / 0.103, rel=0.01)
    assert analysis.window.warmup_steps == 0


def test_a_slow_start_after_abandoned_steps_is_a_warm_up(run: Run) -> None:
    for _ in range(300):
        run.step()
    run.session.abandon_steps()
    for _ in range(12):
        run.step(ms=400)
    for index in range(200):
        run.step(ms=100 + index % 3)
    assert analyse(run.read()).window.warmup_steps == 12


def test_a_run_of_abandoned_steps_alone_has_no_step(run: Run) -> None:
    run.step()
    run.session.abandon_steps()
    facts = run.read()
    assert facts.ranks[0].totals.steps == 0
    assert list(analyse(facts).window.steps) == []


def test_warm_up_and_the_last_step_count_from_the_new_start(tmp_path: Path) -> None:
    run = Run(tmp_path, warmup_steps=1, max_steps=3)
    run.step()
    run.step()
    run.session.abandon_steps()
    for _ in range(5):
        run.step()
    rank = run.read().ranks[0]
    assert rank.columns["step"] == [1, 2, 3, 4, 5]
    warm = [bool(flag & WARMUP) for flag in rank.columns["flags"]]
    assert warm == [True, False, True, False, False]
    assert rank.totals.steps == 3


def test_a_start_over_after_the_last_recorded_step_is_said(tmp_path: Path) -> None:
    run = Run(tmp_path, max_steps=2)
    run.step()
    run.step()
    with pytest.warns(TraintraceWarning, match="what was given up"):
        run.session.abandon_steps()
    facts = run.read()
    assert facts.ranks[0].totals.steps == 2
    assert any("what was given up" in text for text in analyse(facts).warnings)


def test_ranks_that_started_over_at_different_steps_are_told(tmp_path: Path) -> None:
    runs = [Run(tmp_path / str(rank)) for rank in (0, 1)]
    for steps_before, run in enumerate(runs, start=2):
        for _ in range(steps_before):
            run.step()
        run.session.abandon_steps()
        run.step()
    first, second = (run.read() for run in runs)
    both = replace(first, world_size=2, ranks=[*first.ranks, replace(second.ranks[0], rank=1)])
    assert analyse(first).warnings == ()
    assert any("after 2 to 3 steps" in text for text in analyse(both).warnings)


def test_an_epoch_that_was_given_up_says_so(run: Run) -> None:
    run.step()
    run.session.abandon_steps()
    run.step()
    run.step(epoch=1)
    epochs = [event for event in run.read().ranks[0].events if event.kind == "epoch"]
    assert [(event.detail, event.step) for event in epochs] == [
        ("0 (abandoned)", 1),
        ("0", 2),
        ("1", 3),
    ]
    assert [event.duration_ns for event in epochs] == [103_000_000] * 3


def test_after_the_end_nothing_can_be_abandoned(run: Run) -> None:
    run.step()
    run.session.finish("completed")
    run.session.abandon_steps()
    assert run.read().ranks[0].totals.steps == 1


def test_blocks_of_abandoned_steps_go_and_none_is_made_of_them(tmp_path: Path) -> None:
    from tests.core.test_store import make_step, make_totals
    from traintrace.store.retention import Retention
    from traintrace.store.writer import RankWriter

    path = tmp_path / "rank-00000.sqlite"
    writer = RankWriter(path)
    retention = Retention(writer, keep_first=10, keep_last=20, block=10)
    writer.write([make_step(n, forward=n) for n in range(1, 56)], make_totals(55))
    retention.apply(55)
    assert writer.run("SELECT count(*) FROM blocks")[0][0] > 0
    writer.write([], make_totals(0), abandoned=55)
    assert writer.run("SELECT count(*) FROM blocks")[0][0] == 0
    writer.write([make_step(n, forward=n) for n in range(56, 101)], make_totals(45))
    retention.apply(100)
    folded = writer.run("SELECT min(min_ns), max(max_ns) FROM blocks WHERE account = 'forward'")
    writer.close()
    with sqlite3.connect(path) as connection:
        kept = [step for (step,) in connection.execute("SELECT step FROM steps WHERE step > 10")]
    connection.close()
    assert kept == list(range(81, 101))
    assert folded == [(56, 80)]
