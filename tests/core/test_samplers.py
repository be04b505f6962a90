"""The sampler's thread in a real session: when it reads, what reaches the file, and how it ends."""

import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from traintrace import accounts as A
from traintrace import facts
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.runs.identity import Identity
from traintrace.samplers import sampler
from traintrace.samplers.process import ProcessReader
from traintrace.samplers.sampler import pause_s
from traintrace.session import Session

PLUGIN = PluginIdentity("test", "0.1.0", "none", "0")


@contextmanager
def traced(folder: Path, identity: Identity | None = None, **ports: Any) -> Iterator[Session]:
    options = TraceOptions(run_dir=folder, print_report=False)
    session = Session(options, PLUGIN, Ports(**ports), identity=identity)
    session.begin()
    yield session
    session.finish("completed")


def one_step(session: Session, work: Callable[[], object]) -> None:
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    work()
    session.capture.complete()


def rank_of(session: Session) -> facts.RankFacts:
    return session.as_run().facts(["step", "rss_bytes", "start_ns", "duration_ns"]).ranks[0]


def moments(seconds: float, cost_s: float = 0.0) -> list[float]:
    """Give when a run of this length is read."""
    found = [0.0]
    while (moment := found[-1] + pause_s(found[-1], cost_s)) < seconds:
        found.append(moment)
    return found


def test_a_short_run_has_several_readings_and_a_long_one_a_bounded_number() -> None:
    assert len(moments(3)) >= 10
    day = moments(86_400)
    assert 5_000 < len(day) < 12_000
    assert max(later - before for before, later in itertools.pairwise(day)) < 30
    assert len(moments(366 * 86_400)) < 40_000


@pytest.mark.parametrize("cost_s", [0.0001, 0.002, 0.05])
def test_readings_take_at_most_a_thousandth_of_a_core(cost_s: float) -> None:
    assert len(moments(600, cost_s)) * cost_s <= 0.001 * 600 + cost_s


def test_readings_reach_the_file_on_the_clock_of_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, original = [0], ProcessReader.read

    def read(reader: ProcessReader) -> Any:
        taken[0] += 1
        return original(reader)

    def until_read(count: int) -> None:
        end = time.monotonic() + 30
        while taken[0] < count:
            assert time.monotonic() < end, "nothing was read"
            time.sleep(0.01)

    monkeypatch.setattr(ProcessReader, "read", read)
    with traced(tmp_path) as session:
        for count in (1, 2, 3):
            one_step(session, lambda count=count: until_read(count))  # type: ignore[misc]
    rank = rank_of(session)
    assert len(rank.process) >= 3
    assert len(rank.system) == len(rank.process)
    assert not rank.devices
    first, last = rank.columns["start_ns"][0], rank.columns["start_ns"][2]
    assert first is not None
    assert last is not None
    assert first - 1e9 < rank.process[0].at_ns < rank.process[-1].at_ns < last + 5e9
    for before, later in itertools.pairwise(rank.process):
        assert later.interval_ns == later.at_ns - before.at_ns > 0
        assert later.rss_bytes is not None
        assert later.rss_bytes > 10_000_000
        assert 0 <= (later.on_cpu_ns or 0) <= later.interval_ns * 2
    assert rank.process[0].interval_ns is rank.process[0].cpu_cores is None
    system = rank.system[-1]
    assert system.ram_used_bytes is not None
    assert system.ram_total_bytes is not None
    assert 0 < system.ram_used_bytes < system.ram_total_bytes
    assert system.cpu_count == os.cpu_count()
    assert rank.cost.drain_s > 0


def test_the_node_is_read_by_the_first_of_its_ranks_alone(tmp_path: Path) -> None:
    identity = Identity(rank=0, local_rank=1, world_size=1)
    with traced(tmp_path, identity) as session:
        one_step(session, lambda: time.sleep(0.3))
    rank = rank_of(session)
    assert rank.process
    assert not rank.system


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be pinned here")
def test_a_training_thread_that_waits_for_its_core_is_seen_to(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    stop = threading.Event()

    def work(is_over: Callable[[], bool]) -> None:
        data = bytes(1 << 20)
        while not is_over():
            hashlib.sha256(data)  # gives up the interpreter's lock, and nothing else

    os.sched_setaffinity(0, {min(allowed)})
    try:
        rival = threading.Thread(target=work, args=(stop.is_set,))
        rival.start()
        with traced(tmp_path) as session:
            end = time.monotonic() + 0.8
            one_step(session, lambda: work(lambda: time.monotonic() > end))
        stop.set()
        rival.join()
    finally:
        stop.set()
        os.sched_setaffinity(0, allowed)
    readings = rank_of(session).process
    assert {reading.allowed_cores for reading in readings} == {1.0}
    assert sum(reading.run_queue_ns or 0 for reading in readings) > 100_000_000
    assert sum(reading.involuntary_switches or 0 for reading in readings) > 5
    assert sum(reading.on_cpu_ns or 0 for reading in readings) > 50_000_000


@pytest.mark.usefixtures("faults_are_reported")
def test_a_reader_that_fails_altogether_is_reported_once_and_costs_its_own_readings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reader: ProcessReader) -> None:
        raise ArithmeticError(f"a different message each time: {time.monotonic_ns()}")

    monkeypatch.setattr(ProcessReader, "read", fail)
    with pytest.warns(TraintraceWarning, match="the readings of process") as caught:
        with traced(tmp_path) as session:
            one_step(session, lambda: time.sleep(0.6))
    rank = rank_of(session)
    assert len(caught) == len(rank.warnings) == 1
    assert not rank.process
    assert len(rank.system) >= 2
    assert rank.columns["rss_bytes"][0]


def test_a_reading_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, original = threading.Event(), ProcessReader.read

    def read(reader: ProcessReader) -> Any:
        hangs.wait(20)
        return original(reader)

    monkeypatch.setattr(ProcessReader, "read", read)
    monkeypatch.setattr(sampler, "CLOSE_S", 0.05)
    with pytest.warns(TraintraceWarning, match="hangs"), traced(tmp_path) as session:
        one_step(session, lambda: None)
    thread = next(t for t in threading.enumerate() if t.name == "traintrace-sampler")
    hangs.set()
    thread.join()
    assert rank_of(session).totals.steps == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_nothing_reads_in_a_forked_child(tmp_path: Path) -> None:
    with traced(tmp_path) as session:
        one_step(session, lambda: time.sleep(0.05))
        child = os.fork()
        if child == 0:
            names = [thread.name for thread in threading.enumerate()]
            os._exit(int(any("traintrace" in name for name in names)))
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are not listed here")
def test_a_session_that_never_began_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    session = Session(TraceOptions(run_dir=tmp_path), PLUGIN, Ports())
    session.discard()
    assert len(os.listdir("/proc/self/fd")) == before
