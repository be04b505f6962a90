"""What users do to stages besides using them as shown, and what they are told then."""

import multiprocessing
import queue
from pathlib import Path
from typing import Any

import pytest

import traintrace
from tests.labs import stagechildren as children_do
from tests.labs.staged import queue_of, recorded, traced, warnings_of


class Slotted:
    """A user's queue that allows no weak reference."""

    __slots__ = ()

    def get(self) -> None: ...
    def put(self, item: object) -> None: ...


def test_what_cannot_be_taken_up_is_told_once(tmp_path: Path) -> None:
    simple: Any = queue.SimpleQueue()
    assert traintrace.queue(simple, "replies") is simple
    traintrace.queue(Slotted(), "slots")
    gone: Any = traintrace.queue(queue.SimpleQueue(), "gone")
    del gone
    told = []
    for name in ("1", "2"):
        with pytest.warns(traintrace.TraintraceWarning), traced(tmp_path / name) as tracer:
            simple.put(1)
        told.append([warning.split(" is not")[0].split()[-1] for warning in warnings_of(tracer)])
    assert told == [["replies", "slots"], ["replies"]]


def test_children_of_before_are_told(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("fork")
    source, sink = (traintrace.queue(context.Queue(), name) for name in ("source", "sink"))
    with traced(tmp_path / "1") as alone:
        source.put(1)
    child = context.Process(target=children_do.double, args=(source, sink))
    child.start()
    with pytest.warns(traintrace.TraintraceWarning), traced(tmp_path / "2") as tracer:
        assert sink.get() == 2
        source.put(None)
        child.join()
    assert child.exitcode == 0
    assert queue_of(recorded(alone), "source").puts == 1
    assert warnings_of(alone) == []
    assert ["child processes that were started before" in one for one in warnings_of(tracer)] == [
        True,
        True,
    ]
    pipeline = recorded(tracer)
    assert not pipeline.workers
    assert (queue_of(pipeline, "source").puts, queue_of(pipeline, "sink").gets) == (1, 1)
