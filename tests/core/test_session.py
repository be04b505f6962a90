"""A session without any framework: late callers, the end, and the level that goes down by itself."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from traintrace import accounts as A
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.recording.drain import Drain
from traintrace.recording.handover import CAPACITY
from traintrace.recording.journal import OPEN
from traintrace.runs.folder import Run
from traintrace.session import Session
from traintrace.testing import FakeClock, SimulatedDevice

PLUGIN = PluginIdentity("test", "0.1.0", "none", "0")


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    opened: list[Session] = []

    def open_session(
        ports: Ports | None = None, on_finish: Any = None, now: Any = None, **options: Any
    ) -> Session:
        clock = {} if now is None else {"now": now}
        session = Session(
            TraceOptions(run_dir=tmp_path, **options),
            PLUGIN,
            ports or Ports(),
            on_finish=on_finish,
            **clock,
        )
        session.begin()
        opened.append(session)
        return session

    yield open_session
    for session in opened:
        session.finish("completed")


def step(session: Session) -> None:
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    session.capture.complete()


def read(session: Session, *columns: str) -> Any:
    return session.as_run().facts(columns or ["step"]).ranks[0]


def test_a_late_caller_never_finishes_a_later_step(open_session: Any) -> None:
    session = open_session()
    late = session.capture
    session.journal.write(A.INPUT_WAIT)
    late.abort()
    current = session.capture
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    assert not late.complete()
    session.end_step(late, True)  # even one that comes by another door
    assert session.capture is current
    current.complete()
    session.finish("completed")
    totals = read(session).totals
    assert (totals.steps, totals.steps_aborted) == (1, 1)


def test_finishing_twice_makes_one_report(open_session: Any) -> None:
    runs: list[Run] = []
    session = open_session(on_finish=lambda run, show: runs.append(run))
    step(session)
    session.finish("completed")
    session.finish("failed", ValueError())
    assert [run.manifest.status for run in runs] == ["completed"]


def test_the_report_does_not_move_the_user_s_random_draws(open_session: Any) -> None:
    state = random.getstate()
    session = open_session(on_finish=lambda run, show: random.random())
    session.finish("completed")
    assert random.getstate() == state


def test_a_step_completed_after_the_end_is_not_recorded(open_session: Any) -> None:
    session = open_session()
    step(session)
    capture = session.capture
    session.finish("completed")
    capture.complete()
    assert read(session).totals.steps == 1


def test_set_up_and_finish_lie_outside_the_span(open_session: Any) -> None:
    clock = FakeClock()
    session = open_session(now=clock)
    clock.advance(1_000)
    step(session)
    clock.advance(500)
    session.stop_recording()
    clock.advance(10_000_000)
    session.finish("completed")
    rank = read(session)
    assert rank.totals.wall_ns == 1_500
    assert rank.cost.finish_s == 0.0


def test_device_times_come_back_from_a_session(open_session: Any) -> None:
    clock = FakeClock()
    device = SimulatedDevice(clock)
    session = open_session(Ports(device_clock=device), now=clock)
    for _ in range(3):
        session.journal.write(A.INPUT_WAIT)
        session.journal.write(~A.INPUT_WAIT)
        session.journal.write(A.FORWARD)
        device.launch(2_000_000)
        clock.advance(50_000)
        session.journal.write(~A.FORWARD)
        clock.advance(50_000)
        session.capture.complete()
        device.finish_all()
    session.finish("completed")
    rank = read(session, "forward_ns", "forward_device_ns", "input_wait_device_ns")
    assert rank.device_clock == "simulated"
    assert rank.columns["forward_ns"] == [50_000] * 3
    assert all(1_900_000 <= ns <= 2_000_000 for ns in rank.columns["forward_device_ns"])
    assert rank.columns["input_wait_device_ns"] == [None] * 3


@pytest.mark.usefixtures("faults_are_reported")
def test_a_device_clock_that_costs_too_much_is_given_up_and_said_so(open_session: Any) -> None:
    clock = FakeClock()

    class Slow(SimulatedDevice):
        def take(self) -> object | None:
            clock.advance(100_000)  # the driver takes 100 us to record
            return super().take()

    device = Slow(clock, events=10_000)
    session = open_session(Ports(device_clock=device), now=clock)
    with pytest.warns(TraintraceWarning, match="host clock alone"):
        for index in range(60):
            session.journal.write(A.INPUT_WAIT)
            session.journal.write(~A.INPUT_WAIT)
            session.journal.write(A.FORWARD)
            clock.advance(50_000)
            session.journal.write(~A.FORWARD)
            session.capture.complete()
            if index == 55:
                session.flush()
    assert session.level == "host"
    session.finish("completed")
    assert read(session).device_clock is None


def test_declared_warm_up_steps_are_flagged(open_session: Any) -> None:
    from traintrace.facts import WARMUP

    session = open_session(warmup_steps=2)
    for _ in range(4):
        step(session)
    session.finish("completed")
    flags = read(session, "flags").columns["flags"]
    assert [bool(flag & WARMUP) for flag in flags] == [True, True, False, False]


def test_regions_and_values_of_a_closed_step_are_in_its_row(open_session: Any) -> None:
    session = open_session()
    code = session.region_code("augment")
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    session.journal.write(code)
    session.journal.write(code + 1)
    session.log("loss", 2)
    session.capture.complete()
    session.finish("completed")
    rank = read(session)
    assert [(region.step, region.name, region.calls) for region in rank.regions] == [
        (1, "augment", 1)
    ]
    assert [(scalar.step, scalar.name, scalar.value) for scalar in rank.scalars] == [
        (1, "loss", 2.0)
    ]


class Arriving:
    """A logged value on its way from a device; it arrives when it is told to."""

    def __init__(self) -> None:
        self.arrived = False

    def ready(self) -> bool:
        return self.arrived

    def value(self) -> float:
        assert self.arrived, "read before it was there: this would wait for the device"
        return 4.5


def test_a_value_on_a_device_is_read_when_it_has_arrived_and_never_waited_for(
    open_session: Any,
) -> None:
    value = Arriving()
    session = open_session(Ports(read_scalar=lambda given: given))
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    session.log("loss", value)
    session.capture.complete()
    session.flush()
    assert read(session).scalars == []
    value.arrived = True
    step(session)
    session.finish("completed")
    assert [(scalar.step, scalar.value) for scalar in read(session).scalars] == [(1, 4.5)]


class Allocator:
    """An allocator whose peak falls when it is reset."""

    def __init__(self) -> None:
        self.lifetime_peak_bytes = self.peak = 0
        self.resets = 0

    def open_step(self) -> None:
        self.peak = 0
        self.resets += 1

    def read(self, capture: Any) -> None:
        capture.peak_allocated_bytes, capture.peak_reserved_bytes = self.peak, 2 * self.peak
        self.lifetime_peak_bytes = max(self.lifetime_peak_bytes, self.peak)


@pytest.mark.parametrize("wanted", [True, False])
def test_memory_peaks_are_per_step_and_the_largest_is_kept(open_session: Any, wanted: bool) -> None:
    memory = Allocator()
    session = open_session(Ports(memory=memory), step_memory=wanted)
    for peak in (100, 700, 300):
        if session.open_memory is not None:
            session.open_memory()
        memory.peak = peak
        step(session)
    session.finish("completed")
    rank = read(session, "peak_allocated_bytes", "peak_reserved_bytes")
    assert rank.columns["peak_allocated_bytes"] == ([100, 700, 300] if wanted else [None] * 3)
    assert rank.columns["peak_reserved_bytes"] == ([200, 1400, 600] if wanted else [None] * 3)
    assert rank.process_peak_allocated_bytes == (700 if wanted else None)
    assert memory.resets == (3 if wanted else 0)


def test_names_of_logged_values_are_bounded(open_session: Any) -> None:
    from traintrace.recording.logged import MAX_NAMES

    session = open_session()
    with pytest.warns(TraintraceWarning, match="names are logged: the rest is not recorded"):
        for number in range(MAX_NAMES + 20):
            session.journal.write(A.INPUT_WAIT)
            session.journal.write(~A.INPUT_WAIT)
            session.log("loss", 1.0)
            session.log(f"loss of batch {number}", 2.0)
            session.capture.complete()
        session.flush()
    session.finish("completed")
    names = [scalar.name for scalar in read(session).scalars]
    assert names.count("loss") == MAX_NAMES + 20
    assert len(set(names)) == MAX_NAMES


def test_names_of_regions_are_bounded(open_session: Any) -> None:
    from traintrace.recording.regions import MAX_REGIONS, OTHER_REGIONS

    session = open_session()
    session.journal.write(OPEN)
    for number in range(MAX_REGIONS + 50):
        code = session.region_code(f"env{number}")
        session.journal.write(code)
        session.journal.write(code + 1)
    session.capture.complete()
    session.finish("completed")
    regions = {region.name: region.calls for region in read(session).regions}
    assert len(regions) == MAX_REGIONS + 1
    assert regions[OTHER_REGIONS] == 50


def test_ranks_that_cannot_agree_each_keep_a_run_of_their_own(
    open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(number: int, own_mark: str, make: Callable[[], str]) -> str:
        raise RuntimeError("the store does not answer")

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(TraintraceWarning, match="could not agree"):
        session = open_session(Ports(agree_on_run=silent))
    step(session)
    session.finish("completed")
    assert read(session).totals.steps == 1


@pytest.mark.usefixtures("faults_are_reported")
def test_a_run_folder_that_is_deleted_costs_the_report_and_raises_nothing(
    open_session: Any,
) -> None:
    session = open_session()
    step(session)
    shutil.rmtree(session.folder)
    step(session)
    with pytest.warns(TraintraceWarning) as caught:
        session.finish("completed")
    assert session.finished
    assert any(str(session.folder) in str(warning.message) for warning in caught)


def test_a_queue_that_is_half_full_wakes_the_drain(
    open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Drain.__init__, "__defaults__", (3600.0,))  # it would sleep for an hour
    session = open_session()
    session.flush()  # the head of the file, so that it can be read
    for _ in range(CAPACITY // 2):
        step(session)
    until = time.monotonic() + 30
    while not read(session).columns["step"]:
        assert time.monotonic() < until, "the drain slept on"
        time.sleep(0.01)
    session.finish("completed")
    assert read(session).columns["step"] == list(range(1, CAPACITY // 2 + 1))
