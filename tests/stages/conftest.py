"""Sessions that record stages and nothing else."""

import queue
from collections.abc import Callable, Iterator

import pytest

from tests.labs.stagepipe import Pipe
from tests.stages.sessions import end
from traintrace.faults import FaultReporter
from traintrace.registry import REGISTRY
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.takingup import take_up


@pytest.fixture
def begin() -> Iterator[Callable[[], StageRecorder]]:
    """Begin a session, which takes up what was named before; all are ended with the test."""
    begun: list[StageRecorder] = []

    def begin() -> StageRecorder:
        recorder = StageRecorder(FaultReporter(raise_faults=True))
        begun.append(recorder)
        REGISTRY.recorders.append(recorder)
        take_up(REGISTRY.named, recorder)
        return recorder

    yield begin
    for recorder in begun:
        end(recorder)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Threads that work before any session; their queues are given back as they were."""
    pipe = Pipe().start()
    yield pipe
    pipe.end()
    assert (type(pipe.middle), type(pipe.out)) == (queue.Queue, queue.Queue)
