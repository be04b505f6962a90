"""How a child process hands on: small whole files, a bounded number of them, and none once the session has ended."""

import time
from pathlib import Path

import pytest

from tests.labs.stageclock import StageClock
from traintrace.faults import FaultReporter
from traintrace.stages import delivery
from traintrace.stages.delivery import Delivery
from traintrace.stages.inbox import Inbox, merged, read_update
from traintrace.stages.pickling import child_recorder
from traintrace.stages.queues import follow_unpickled
from traintrace.stages.records import Update
from traintrace.stages.stage import Stage


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    inbox = Inbox(tmp_path / "run" / "stages" / "rank.1", FaultReporter(raise_faults=True))
    inbox.open()
    return inbox


def work(clock: StageClock, times: int = 1) -> None:
    with clock.stage() as stage:
        for _ in range(times):
            clock.queue("items").put(5)
            clock.pass_by(10)
            stage.done(tokens=3)


def updates_in(inbox: Inbox) -> list[Update]:
    ((_, updates),) = inbox.take().items()
    return updates


def test_what_is_delivered_arrives_as_it_was(inbox: Inbox) -> None:
    clock = StageClock()
    child = Delivery(clock.recorder, inbox.path)
    work(clock)
    child.deliver()
    child.deliver()  # nothing is new
    work(clock, 2)
    child.finish()
    first, second = updates_in(inbox)
    assert first.workers[0].items == 1
    assert first.workers[0].account_ns == {"busy": 10, "starved": 0, "blocked": 5, "other": 0}
    assert [list(service) for service in second.workers[0].services] == [
        [1_000_030, 10, 1, 3, 1],
        [1_000_045, 10, 1, 3, 1],
    ]
    assert second.queues[0].puts == 3
    assert inbox.take() == {}
    assert list(inbox.path.iterdir()) == []


def test_files_that_nobody_takes_are_bounded_and_sums_go_on(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MOST_WAITING", 3)
    clock = StageClock()
    child = Delivery(clock.recorder, inbox.path)
    for _ in range(10):
        work(clock)
        child.deliver()
    assert len(list(inbox.path.iterdir())) == 3
    assert len(updates_in(inbox)) == 3
    child.deliver()
    (rest,) = updates_in(inbox)
    assert rest.workers[0].items == 10
    assert len(rest.workers[0].services) == 7
    assert (rest.queues[0].puts, len(rest.queues[0].put_ns)) == (10, 7)


def test_the_end_of_the_session_ends_the_childs_recording(inbox: Inbox) -> None:
    clock = StageClock()
    child = Delivery(clock.recorder, inbox.path)
    work(clock)
    child.deliver()
    assert len(inbox.close()) == 1
    assert inbox.close() == {}
    assert not inbox.path.parent.exists()
    work(clock)
    child.deliver()
    assert not clock.recorder.recording


def test_a_child_that_comes_too_late_gets_the_queue_and_nothing_else(inbox: Inbox) -> None:
    assert inbox.close() == {}
    assert child_recorder(inbox.path) is None
    made = follow_unpickled("items", str(inbox.path), list, ((1, 2),))
    assert made == [1, 2]


def test_a_file_that_cannot_be_read_costs_itself(inbox: Inbox, faults_are_reported: None) -> None:
    inbox = Inbox(inbox.path, FaultReporter())
    inbox.open()
    (inbox.path / "1-a.00000000.json").write_text("[[1], ", "utf-8")
    (inbox.path / "1-a.00000001.json").write_text("[[], [3]]", "utf-8")
    (inbox.path / "1-a.00000002.json").write_text("[[], []]", "utf-8")
    (inbox.path / "1-a.00000003.tmp").write_text("[[]", "utf-8")
    assert inbox.take() == {"1-a": [Update([], [])]}
    assert len(inbox._faults.messages) == 2
    assert inbox.take() == {}
    with pytest.raises(ValueError, match="Expecting"):
        read_update("[1")


def test_a_folder_that_cannot_be_made_costs_the_children_alone(
    tmp_path: Path, faults_are_reported: None
) -> None:
    (tmp_path / "stages").write_text("a file", "utf-8")
    inbox = Inbox(tmp_path / "stages" / "rank.1", FaultReporter())
    inbox.open()
    assert inbox.take() == inbox.close() == {}
    (told,) = inbox._faults.messages
    assert str(tmp_path) not in told


def test_updates_of_one_process_come_one_after_another() -> None:
    first, second, other = Update(), Update([], []), Update()
    assert merged({"a": [first, second], "b": [other]}) == [
        {"a": first, "b": other},
        {"a": second},
    ]


def test_a_thread_of_its_own_delivers(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "INTERVAL_S", 0.01)
    clock = StageClock()
    child = Delivery(clock.recorder, inbox.path)
    child.start()
    with Stage(clock.recorder, "work") as stage:
        stage.done()
        until = time.monotonic() + 5
        while not list(inbox.path.glob("*.json")) and time.monotonic() < until:
            time.sleep(0.01)
    child.finish()
    assert updates_in(inbox)[0].workers[0].items == 1
