"""The device clock against a simulated device: known durations, and events that are slow, fail or hang."""

import pytest

from traintrace import accounts as A
from traintrace.recording.device import RESOLVE_DEADLINE_NS, EventRecorder, PendingSteps
from traintrace.recording.handover import Handover
from traintrace.recording.journal import Journal, Segment
from traintrace.recording.ledger import Ledger
from traintrace.recording.steps import StepCapture
from traintrace.testing import FakeClock, SimulatedDevice

MS = 1_000_000


class Rig:
    """A training thread with a journal, a simulated device and a drain, on one fake clock."""

    def __init__(self, events: int = 64) -> None:
        self.clock = FakeClock()
        self.device = SimulatedDevice(self.clock, events)
        self.recorder = EventRecorder(self.device, self.clock)
        self.pending = PendingSteps(self.device, self.clock)
        self.handover = Handover(Ledger(self.clock()), self.pending)
        self.journal = Journal(1, self.handover.put, self.clock, self.recorder)

    def step(self, forward: int = 2 * MS, backward: int = 4 * MS, optimizer: int = MS) -> None:
        """Train one step: the host queues everything within 300 us, the device works for ms."""
        write, launch, advance = self.journal.write, self.device.launch, self.clock.advance
        write(A.INPUT_WAIT)
        advance(50_000)
        write(~A.INPUT_WAIT)
        for account, work in (
            (A.FORWARD, forward),
            (A.BACKWARD, backward),
            (A.OPTIMIZER, optimizer),
        ):
            advance(20_000)
            write(account)
            launch(work)
            advance(50_000)
            write(~account)
        self.journal.cut(StepCapture())

    def resolve(self) -> dict[int, dict[str, float]]:
        """Drain; give milliseconds per phase on the device, by step."""
        while self.handover.replay()[2]:
            pass
        return {
            step: {A.NAMES[i]: ns / MS for i, ns in enumerate(inside) if ns}
            for step, inside in self.pending.resolve()
        }


def test_phases_are_timed_on_the_device_and_not_by_when_they_were_queued() -> None:
    rig = Rig()
    rig.step()
    assert rig.resolve() == {}  # nothing has run yet, and nothing waited
    rig.device.finish_all()
    times = rig.resolve()[1]
    assert times["forward"] == pytest.approx(2, abs=0.1)
    assert times["backward"] == pytest.approx(4, abs=0.1)
    assert times["optimizer"] == pytest.approx(1, abs=0.1)


def test_both_clocks_are_kept_for_the_same_step() -> None:
    rig = Rig()
    rig.step()
    rows, _, _ = rig.handover.replay()
    host = rows[0][1].inside
    assert host[A.FORWARD] == 50_000
    rig.device.finish_all()
    device = dict(rig.pending.resolve())[1]
    assert device[A.FORWARD] > 30 * host[A.FORWARD]


def test_device_accounts_sum_to_the_time_from_the_first_event_to_the_last() -> None:
    rig = Rig(events=64)
    rig.step()
    rig.device.finish_all()
    rig.handover.replay()
    marks = rig.pending._waiting[0].segment.device_marks
    assert marks is not None
    span = rig.device.elapsed_ns(marks[0].event, marks[-1].event)
    assert sum(dict(rig.pending.resolve())[1]) == span


def test_twenty_steps_ahead_of_the_device_all_resolve_and_all_events_come_back() -> None:
    rig = Rig(events=20 * 8)
    for _ in range(20):
        rig.step()
    early = rig.resolve()
    assert len(early) < 20
    rig.device.finish_all()
    times = early | rig.resolve()
    assert list(times) == list(range(1, 21))
    assert all(time["backward"] == pytest.approx(4, abs=0.1) for time in times.values())
    assert rig.pending.lost == 0
    assert rig.device.pooled == 20 * 8


def test_recording_and_resolving_never_wait() -> None:
    rig = Rig()
    before = rig.clock.moment
    rig.step()
    queued = rig.clock.moment - before
    assert queued == 260_000  # what the host itself did; the device owes 7 ms
    rig.resolve()
    assert rig.clock.moment - before == queued
    assert not any("sync" in name or "wait" in name for name in dir(SimulatedDevice))


def test_an_empty_pool_costs_device_times_and_nothing_else() -> None:
    rig = Rig(events=9)
    rig.step()
    rig.step()
    rows, _, _ = rig.handover.replay()
    assert len(rows) == 2
    rig.device.finish_all()
    assert list(dict(rig.pending.resolve())) == [1]
    assert rig.pending.lost == 1
    assert rig.device.pooled == 9


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_step_whose_events_fail_loses_its_device_times_and_no_other_does(bad: int) -> None:
    rig = Rig()
    for index in range(3):
        rig.device.next_behaviour = "fails" if index == bad else "good"
        rig.step()
    rig.device.finish_all()
    assert set(rig.resolve()) == {1, 2, 3} - {bad + 1}
    assert rig.pending.lost == 1
    assert rig.device.pooled == 64


def test_a_step_that_never_resolves_does_not_hold_back_those_after_it() -> None:
    rig = Rig()
    rig.device.next_behaviour = "never"
    rig.step()
    rig.device.next_behaviour = "good"
    rig.step()
    rig.step()
    rig.device.finish_all()
    assert set(rig.resolve()) == {2, 3}
    assert rig.pending.lost == 1


def test_a_last_step_that_never_resolves_is_given_up_after_a_deadline() -> None:
    rig = Rig()
    rig.device.next_behaviour = "never"
    rig.step()
    assert rig.resolve() == {}
    assert len(rig.pending) == 1
    rig.clock.advance(RESOLVE_DEADLINE_NS)
    assert rig.resolve() == {}
    assert len(rig.pending) == 0
    assert rig.device.pooled < 64  # events that may still be in use are not used again


def test_slow_events_resolve_late_and_keep_their_times() -> None:
    rig = Rig()
    rig.device.next_late_ns = 100 * MS
    rig.step()
    rig.device.finish_all()
    assert rig.resolve() == {}
    rig.clock.advance(100 * MS)
    assert rig.resolve()[1]["forward"] == pytest.approx(2, abs=0.1)


def test_too_many_transitions_leave_the_step_without_device_times() -> None:
    rig = Rig(events=500)
    rig.journal.write(A.INPUT_WAIT)
    rig.journal.write(~A.INPUT_WAIT)
    for _ in range(40):
        rig.clock.advance(50_000)
        rig.journal.write(A.FORWARD)
        rig.clock.advance(50_000)
        rig.journal.write(~A.FORWARD)
    rig.journal.cut(StepCapture())
    assert rig.resolve() == {}
    assert rig.device.pooled == 500


def test_what_runs_before_the_first_batch_request_takes_no_events() -> None:
    rig = Rig(events=500)
    for _ in range(60):  # an evaluation between two steps
        rig.clock.advance(50_000)
        rig.journal.write(A.FORWARD)
        rig.clock.advance(50_000)
        rig.journal.write(~A.FORWARD)
    rig.step()
    rig.device.finish_all()
    assert set(rig.resolve()) == {1}


def test_neighbouring_transitions_share_one_event() -> None:
    rig = Rig()
    rig.journal.write(A.INPUT_WAIT)
    rig.journal.write(~A.INPUT_WAIT)
    rig.journal.write(A.FORWARD)
    rig.clock.advance(50_000)
    rig.journal.write(~A.FORWARD)
    rig.journal.write(A.BACKWARD)  # at the same instant: nothing can have been queued between
    rig.clock.advance(50_000)
    rig.journal.write(~A.BACKWARD)
    rig.clock.advance(50_000)
    rig.journal.cut(StepCapture())
    assert rig.device.pooled == 64 - 4


def test_an_event_that_precedes_its_predecessor_is_not_believed() -> None:
    clock = FakeClock()
    device = SimulatedDevice(clock)
    pending = PendingSteps(device, clock)
    recorder = EventRecorder(device, clock)
    journal = Journal(1, lambda segment: segments.append(segment), clock, recorder)
    segments: list[Segment] = []
    journal.write(A.INPUT_WAIT)
    for account in (~A.INPUT_WAIT, A.FORWARD, ~A.FORWARD):
        clock.advance(50_000)
        journal.write(account)
    clock.advance(50_000)
    journal.cut(StepCapture())
    marks = segments[0].device_marks
    assert marks is not None
    marks[-1].event.at_ns = 0  # type: ignore[attr-defined]  # a device that lies
    pending.add(1, segments[0], Ledger(0))
    assert dict(pending.resolve()) == {}
    assert pending.lost == 1
