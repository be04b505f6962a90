"""Readings of a rank's process from files: amounts, process trees, and everything that can be missing."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fake_machine import FakeMachine
from traintrace.samplers.amounts import Counter, Rate
from traintrace.samplers.process import ProcessReader
from traintrace.samplers.processtree import LinuxProcesses, PsutilProcesses
from traintrace.samplers.procfs import (
    PAGE_BYTES,
    environment_value,
    keyed_number,
    parse_schedstat,
    parse_stat,
    parse_switches,
)
from traintrace.testing import FakeClock

S = 1_000_000_000
THREAD = 77


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    return FakeMachine(tmp_path)


class Readings:
    """A reader of a machine of files, under a clock that the test moves."""

    def __init__(self, machine: FakeMachine, local_rank: int = 0) -> None:
        self.clock = FakeClock()
        self.own_cpu_ns = 0
        root = str(machine.root)
        processes = LinuxProcesses(local_rank, root)
        self.reader = ProcessReader(
            THREAD, processes, self.clock, own_cpu_ns=lambda: self.own_cpu_ns, root=root
        )

    def after(self, seconds: float = 1.0) -> "Readings":
        self.clock.advance(round(seconds * S))
        return self


def test_amounts_are_of_the_time_since_the_reading_before(machine: FakeMachine) -> None:
    machine.process("self", threads=6, rss_pages=1_000)
    machine.thread(THREAD, 5 * S, 2 * S, 100, 10)
    readings = Readings(machine)
    first = readings.reader.read()
    assert (first.interval_ns, first.cpu_cores, first.run_queue_ns) == (None, None, None)
    assert (first.threads, first.rss_bytes, first.workers) == (6, 1_000 * PAGE_BYTES, 0)
    machine.thread(THREAD, 5 * S + 600_000_000, 2 * S + 300_000_000, 107, 15)
    readings.own_cpu_ns = 1_500_000_000
    second = readings.after().reader.read()
    assert second.interval_ns == second.at_ns - first.at_ns == S
    assert (second.on_cpu_ns, second.run_queue_ns) == (600_000_000, 300_000_000)
    assert (second.voluntary_switches, second.involuntary_switches) == (7, 5)
    assert second.cpu_cores == 1.5
    assert second.throttled_ns is None  # there is no cgroup tree


def test_descendants_of_descendants_count_and_other_ranks_do_not(machine: FakeMachine) -> None:
    machine.process("self", children="11 12 13 ")
    machine.process("11", rss_pages=10, children="111")
    machine.process("111", rss_pages=5, environment="A=1\0LOCAL_RANK=0\0")
    machine.process("12", rss_pages=900, children="121", environment="LOCAL_RANK=1\0")
    machine.process("121", rss_pages=900)
    reading = Readings(machine).reader.read()  # 13 has ended meanwhile
    assert (reading.workers, reading.workers_rss_bytes) == (2, 15 * PAGE_BYTES)


def test_what_an_ended_worker_used_is_neither_lost_nor_counted_twice(machine: FakeMachine) -> None:
    machine.process("self", children="11 12")
    machine.process("11", cpu_s=100.0)
    machine.process("12", cpu_s=1.0)
    readings = Readings(machine)
    readings.reader.read()
    machine.process(
        "11", cpu_s=100.25, rss_pages=0, state="Z"
    )  # it has ended, and nobody knows yet
    ended = readings.after().reader.read()
    assert (ended.workers, ended.workers_cpu_cores) == (1, 0.25)
    machine.process("self", children="12", reaped_s=100.5)  # 11 had used some more before
    machine.process("12", cpu_s=1.5)
    reading = readings.after().reader.read()
    assert reading.workers_cpu_cores == 0.75


def test_a_worker_that_the_list_of_children_missed_gives_no_rate_and_then_the_right_one(
    machine: FakeMachine,
) -> None:
    machine.process("self", children="11 12")
    machine.process("11", cpu_s=50.0)
    machine.process("12", cpu_s=50.0)
    readings = Readings(machine)
    readings.reader.read()
    machine.process("self", children="12")
    assert readings.after().reader.read().workers_cpu_cores is None
    machine.process("self", children="11 12")
    machine.process("11", cpu_s=51.0)
    assert readings.after().reader.read().workers_cpu_cores == 0.5  # over both intervals


def test_what_is_more_than_there_are_cores_is_not_reported(machine: FakeMachine) -> None:
    machine.process("self")
    machine.thread(THREAD, 0, 0, 0, 0)
    readings = Readings(machine)
    readings.reader.read()
    readings.own_cpu_ns = 5 * S  # in one second on four cores
    machine.process("self", children="11")
    machine.process("11", cpu_s=30.0)  # a stranger, with a life before
    machine.thread(THREAD, 2 * S, 3 * S, 5, 5)
    reading = readings.after().reader.read()
    assert reading.cpu_cores is None
    assert reading.workers_cpu_cores is None
    assert reading.on_cpu_ns is None
    assert reading.run_queue_ns is None
    assert reading.voluntary_switches == 5


def test_a_machine_that_tells_nothing_gives_a_reading_of_nothing(machine: FakeMachine) -> None:
    readings = Readings(machine)
    for _ in range(3):
        reading = readings.after().reader.read()
    assert reading.interval_ns == S
    for value in (reading.workers, reading.threads, reading.rss_bytes, reading.workers_rss_bytes):
        assert value is None
    assert (reading.run_queue_ns, reading.on_cpu_ns, reading.workers_cpu_cores) == (None,) * 3


def test_a_clock_that_stands_still_gives_no_rate(machine: FakeMachine) -> None:
    machine.process("self")
    readings = Readings(machine)
    readings.reader.read()
    assert readings.reader.read().cpu_cores is None


def test_a_total_that_could_not_be_read_leaves_the_next_amount_unknown_too() -> None:
    counter = Counter()
    totals = [5, 9, None, 20, 30, 10, 11]
    assert [counter.advance(total) for total in totals] == [None, 4, None, None, 10, None, 1]


def test_a_rate_that_falls_twice_has_started_over() -> None:
    rate = Rate()
    moments = [(0, 9 * S), (1, 2 * S), (2, 2 * S), (3, 3 * S)]
    assert [rate.advance(total, at * S, 4) for at, total in moments] == [None, None, None, 1.0]


@given(st.text())
def test_no_text_makes_the_parsers_raise(text: str) -> None:
    stat = parse_stat(text)
    assert stat is None or min(stat) >= 0
    assert len(parse_schedstat(text)) == len(parse_switches(text)) == 2
    keyed_number(text, "a")
    environment_value(text, "A")


@given(st.lists(st.one_of(st.integers(), st.text("0123456789 -x", max_size=5)), max_size=60))
def test_a_process_has_all_of_its_numbers_or_none(fields: list[object]) -> None:
    stat = parse_stat(") " + " ".join(map(str, fields)))
    assert stat is None or all(value >= 0 for value in stat)


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=15),
    numbers=st.lists(st.integers(0, 10**9), min_size=50, max_size=50),
)
def test_the_name_of_a_process_moves_no_number(name: str, numbers: list[int]) -> None:
    text = f"1 ({name}) S " + " ".join(map(str, numbers))
    expected = parse_stat("1 (python) S " + " ".join(map(str, numbers)))
    assert expected is not None
    assert parse_stat(text) == expected


def test_psutil_reads_this_process_and_its_children_where_there_is_no_proc() -> None:
    processes = PsutilProcesses()
    own = processes.own()
    assert own is not None
    assert own.rss_bytes > 1_000_000
    assert own.threads >= 1
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        tree = processes.tree(own)
    finally:
        child.communicate(b"\n")
    assert tree is not None
    assert tree.processes >= 1
    assert tree.rss_bytes > 0
