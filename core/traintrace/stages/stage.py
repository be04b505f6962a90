"""`with tracer.stage("target-forward") as stage:` — the block in which a thread, process or task works in a stage."""

import operator
from types import TracebackType
from typing import Any

from traintrace.stages.marks import DONE, PAUSE, RESUME, SHIFT
from traintrace.stages.recorder import FULL, StageRecorder
from traintrace.stages.worker import CURRENT, Worker, current_worker


class Stage:
    """A stage's `with` block; may be entered again and by several threads. Where nothing records, it does nothing."""

    __slots__ = ("_name", "_recorder")

    def __init__(self, recorder: StageRecorder | None, name: str) -> None:
        self._recorder = recorder
        self._name = str(name)

    def __enter__(self) -> "Stage":
        recorder = self._recorder
        if recorder is not None and recorder.recording:
            with recorder.faults.guard(f"the stage {self._name}"):
                outer = current_worker(recorder)
                worker = recorder.open(self._name)
                if worker is not None:
                    if outer is not None:
                        outer.mark(PAUSE)
                    worker.outer = outer
                    CURRENT.set(worker)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        current = current_worker(recorder)
        worker = self._found(current)
        if current is None or worker is None:
            return
        outer = worker.outer
        if worker is current:
            CURRENT.set(outer)
            worker.leave()
            if outer is not None:
                outer.mark(RESUME)
            return
        # A generator that works in a stage of its own may be left open inside this one.
        while current.outer is not worker and current.outer is not None:
            current = current.outer
        current.outer = outer
        worker.leave()

    def _found(self, current: Worker | None) -> Worker | None:
        """Give the caller's place in this stage, others that it holds inside it left out."""
        worker = current
        while worker is not None and worker.stage != self._name:
            worker = worker.outer
        return worker

    def done(self, items: int = 1, tokens: int | None = None) -> None:
        """Say that work on `items` items is done, which held `tokens` tokens.

        What the worker did since it said so last was for them. Without it, what follows each `get` is one item.
        """
        recorder = self._recorder
        if recorder is None:
            return
        worker = self._found(current_worker(recorder))
        if worker is None:
            return
        said = -1 if tokens is None else tokens
        if type(items) is not int or type(said) is not int:
            with recorder.faults.guard("what a stage says that it has done"):
                items, said = _whole(items), _whole(said)
            if type(items) is not int or type(said) is not int:
                return
        worker.entries.extend((recorder.now(), (items << SHIFT) + said + 1, DONE))
        if len(worker.entries) > FULL:
            recorder.relieve(worker)


def _whole(value: Any) -> int:
    if hasattr(value, "is_cuda"):  # reading it might wait for a device
        raise TypeError("the number of items or tokens is a tensor, and must be an int")
    return operator.index(value)
