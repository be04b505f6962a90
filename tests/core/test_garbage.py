"""Python's garbage collector: what it took of a step is told, and its own work is not disturbed."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traintrace import accounts as A
from traintrace.facts import GC
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.recording.garbage import GarbageWatch
from traintrace.session import Session


class Node:
    """One object of a reference cycle."""

    def __init__(self) -> None:
        self.other = self


@pytest.fixture(autouse=True)
def collections_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(
        TraceOptions(run_dir=tmp_path), PluginIdentity("test", "0", "none", "0"), Ports()
    )
    session.begin()
    yield session
    session.finish("completed")


def make_garbage(objects: int = 60_000) -> None:
    for _ in range(objects):
        Node()


def collect() -> int:
    """Collect; give nanoseconds that were surely spent in it."""
    moments: dict[str, int] = {}

    def first(phase: str, info: Any) -> None:
        moments[f"first {phase}"] = time.perf_counter_ns()

    def last(phase: str, info: Any) -> None:
        moments[f"last {phase}"] = time.perf_counter_ns()

    gc.callbacks.insert(0, first)
    gc.callbacks.append(last)
    try:
        make_garbage()
        gc.collect()
    finally:
        gc.callbacks.remove(first)
        gc.callbacks.remove(last)
    # The tracer's clock stands between the two: it starts before `last` and stops after `first`.
    return moments["first stop"] - moments["last start"]


def step(session: Session, collecting: bool = False) -> int:
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    spent = collect() if collecting else 0
    session.capture.complete()
    return spent


def read(session: Session) -> Any:
    session.finish("completed")
    columns = ["step", "gc_ns", "flags", "open_ns", "start_ns", "duration_ns"]
    return session.as_run().facts(columns).ranks[0]


def test_a_step_knows_how_much_of_it_was_collecting(session: Session) -> None:
    step(session)
    spent = step(session, collecting=True)
    step(session)
    rank = read(session)
    columns = rank.columns
    before, during, after = columns["gc_ns"]
    assert before == after == 0  # watched, and nothing happened
    step_ns = columns["start_ns"][1] + columns["duration_ns"][1] - columns["open_ns"][1]
    assert spent <= during <= step_ns
    assert [bool(flag & GC) for flag in columns["flags"]] == [False, True, False]
    (event,) = rank.events
    assert (event.kind, event.step, event.duration_ns) == ("gc", 2, during)
    assert columns["open_ns"][1] <= event.at_ns
    assert event.at_ns + event.duration_ns <= columns["open_ns"][1] + step_ns
    assert rank.totals.gc_ns == during
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns


def test_a_collection_in_a_step_that_is_published_while_the_drain_works_is_in_that_step(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    handover, thread = session._handover, threading.get_ident()
    spent: list[int] = []
    replay = handover.replay

    def publish_first() -> Any:
        if not spent and threading.get_ident() == thread:
            spent.append(step(session, collecting=True))
        return replay()

    monkeypatch.setattr(handover, "replay", publish_first)
    session.flush()
    step(session)
    rank = read(session)
    during, after = rank.columns["gc_ns"]
    assert during >= spent[0] > 0
    assert after == 0
    assert [event.step for event in rank.events] == [1]


def test_a_collection_between_steps_is_in_no_step_and_in_the_total(session: Session) -> None:
    step(session)
    spent = collect()
    step(session)
    after = collect()  # after the last step
    rank = read(session)
    assert rank.columns["gc_ns"] == [0, 0]
    assert not any(flag & GC for flag in rank.columns["flags"])
    assert [(event.kind, event.step) for event in rank.events] == [("gc", 2), ("gc", 3)]
    assert rank.totals.gc_ns >= spent + after


def test_a_short_collection_is_in_the_sum_and_is_no_event(session: Session) -> None:
    session.journal.write(A.INPUT_WAIT)
    for _ in range(20):
        gc.collect(0)
    session.journal.write(~A.INPUT_WAIT)
    session.capture.complete()
    rank = read(session)
    assert rank.columns["gc_ns"][0] > 0
    if not rank.events:  # unless this machine stopped for a millisecond in one of them
        assert not rank.columns["flags"][0] & GC


def test_a_collection_on_another_thread_is_no_pause_of_training(session: Session) -> None:
    session.journal.write(A.INPUT_WAIT)
    thread = threading.Thread(target=collect)
    thread.start()
    thread.join()
    session.journal.write(~A.INPUT_WAIT)
    session.capture.complete()
    rank = read(session)
    assert rank.columns["gc_ns"] == [0]
    assert rank.totals.gc_ns == 0
    assert list(rank.events) == []


def test_a_long_stretch_without_a_step_keeps_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    from traintrace.recording import garbage
    from traintrace.recording.books import LedgerRow
    from traintrace.recording.steps import StepCapture

    monkeypatch.setattr(garbage, "_MAX_WAITING", 3)
    watch = GarbageWatch(1)
    for start in range(0, 100, 10):
        watch._add(start, 2)
    row = LedgerRow(0, 0, 200, (), (), (), {}, StepCapture())
    watch.fill_in(row)
    assert row.capture.gc_ns == watch.total_ns == 20


def test_a_signal_during_a_collection_reaches_the_user_s_handler(session: Session) -> None:
    """A Python function in `gc.callbacks` would run the handler and swallow what it raises."""

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    # Those of other tools (Hypothesis) are Python functions and would lose what the handler raises.
    others = [call for call in gc.callbacks if call is not session._incidents._garbage._hook]
    for call in others:
        gc.callbacks.remove(call)
    try:
        for _ in range(3):
            make_garbage(100_000)
            with pytest.raises(Stop):
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                gc.collect()
                time.sleep(1)  # a collection that was done sooner
    finally:
        gc.callbacks.extend(others)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_not_watched(session: Session) -> None:
    own = [callback for callback in gc.callbacks if callback is session._incidents._garbage._hook]
    assert len(own) == 1
    child = os.fork()
    if child == 0:
        os._exit(int(own[0] in gc.callbacks))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert own[0] in gc.callbacks  # the parent's still is
