"""The followed methods of a queue: two clock readings around the method. They raise what it raises and nothing else."""

import functools
import inspect
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

from traintrace.stages.blocks import CURRENT
from traintrace.stages.marks import GET_ENDED, GET_FAILED, GOT
from traintrace.stages.recorder import FULL, StageRecorder
from traintrace.stages.worker import Worker, is_waited_for

Method = Callable[..., Any]
Make = Callable[[Method, StageRecorder], Method]

_IN_TASKS = "its asyncio queues are used by tasks: open the stage inside the task"
_IN_OTHER_TASKS = "a task that it started waited for a queue: that is not told from its own work"
_OF_ANOTHER_RUN = "a queue that another run follows is used: waiting for it is not told from work"


class _Counted(threading.local):
    """What the calling thread did outside stages.

    Attributes:
        code: Of the operation that was counted last since one of a user's own method began; 0 if none was.
    """

    code = 0


# One for all, which is never garbage; see `midway`.
_COUNTED: Final = _Counted()


def operation(succeeded: int) -> Make:
    """Follow a method that may wait; `succeeded` is the code of a queue's GOT or PLACED."""
    failed = succeeded + (GET_FAILED - GOT)

    def make(method: Method, recorder: StageRecorder) -> Method:
        now, outside, current = recorder.now, recorder.outside, CURRENT.get
        may_call_itself = _is_users(method)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            block = current()
            worker = None if block is None else block.worker
            # `Worker.is_held` written out: this runs at every operation.
            if (
                worker is None
                or worker.owner != get_ident()
                or worker.recorder is not recorder
                or (worker.task is not None and not worker.is_held())
            ):
                if may_call_itself:
                    _COUNTED.code = 0
                result = method(self, *args, **kwargs)
                if may_call_itself:
                    if _COUNTED.code == succeeded:  # by a call inside this one
                        return result
                    _COUNTED.code = succeeded
                if recorder.recording:
                    if worker is not None:
                        _say_what_is_not_seen(worker, recorder)
                    outside.extend((now(), succeeded))
                    if len(outside) > FULL or recorder.when_used is not None:
                        _look_after(recorder)
                return result
            worker.waits_for = succeeded
            worker.waits_since = begin = now()
            try:
                result = method(self, *args, **kwargs)
            except BaseException:
                worker.entries.extend((begin, now(), failed))
                raise
            entries = worker.entries
            entries.extend((begin, now(), succeeded))
            if len(entries) > FULL:
                recorder.relieve(worker)
            return result

        return call

    return make


def _is_users(method: Method) -> bool:
    """Say whether a method is none of the standard library's, none of which calls itself."""
    return inspect.isfunction(method) and method.__module__ not in (
        "queue",
        "multiprocessing.queues",
    )


def awaited(succeeded: int, *, tells: bool) -> Make:
    """Follow a coroutine method that may wait; `tells`: its return is the success, which nothing else tells."""
    ended = succeeded + (GET_ENDED - GOT)

    def make(method: Method, recorder: StageRecorder) -> Method:
        now = recorder.now

        @functools.wraps(method)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            worker = _task_worker(recorder)
            if worker is None:
                result = await method(self, *args, **kwargs)
                if tells:
                    _note_outside(recorder, succeeded)
                return result
            worker.succeeded, worker.waits_for = False, succeeded
            worker.waits_since = begin = now()
            try:
                result = await method(self, *args, **kwargs)
                if tells:
                    worker.succeeded = True
                return result
            finally:
                outcome = succeeded if worker.succeeded else ended
                entries = worker.entries
                # First, so that whoever folds finds the operation or its entry.
                entries.extend((begin, now(), outcome))
                worker.waits_for, worker.waiting_task = 0, None
                if len(entries) > FULL:
                    recorder.relieve(worker)

        return call

    return make


def immediate(succeeded: int) -> Make:
    """Follow a method of an asyncio queue that never waits, and that those which wait call in the end."""
    failed = succeeded + (GET_FAILED - GOT)

    def make(method: Method, recorder: StageRecorder) -> Method:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            worker = _task_worker(recorder)
            try:
                result = method(self, *args, **kwargs)
            except BaseException:
                if worker is not None and not worker.waits(succeeded):
                    worker.mark(failed)
                raise
            if worker is None:
                _note_outside(recorder, succeeded)
            elif worker.waits(succeeded):
                worker.succeeded = True  # what waits writes it
            else:
                worker.mark(succeeded)
            return result

        return call

    return make


def _task_worker(recorder: StageRecorder) -> Worker | None:
    """Give the task's worker; a thread's is none of its tasks', of which there may be many.

    Before Python 3.12 `asyncio.wait_for` lets another task wait for its own.
    """
    block = CURRENT.get()
    worker = None if block is None else block.worker
    if worker is None or worker.owner != get_ident() or worker.recorder is not recorder:
        return None
    try:
        running: Any = worker.running_task()
    except RuntimeError:  # no event loop runs in this thread
        return None
    if running is worker.task or running is worker.waiting_task:
        return worker
    if worker.task is not None and is_waited_for(running, worker.task):
        worker.waiting_task = running
        return worker
    _say_what_is_not_seen(worker, recorder)
    return None


def _say_what_is_not_seen(worker: Worker, recorder: StageRecorder) -> None:
    if worker.owner != get_ident():
        return
    if worker.recorder is not recorder:
        worker.unmeasured = _OF_ANOTHER_RUN
    elif worker.task is None:
        worker.unmeasured = _IN_TASKS
    else:
        worker.unmeasured = _IN_OTHER_TASKS


def _note_outside(recorder: StageRecorder, code: int) -> None:
    if recorder.recording:
        recorder.outside.extend((recorder.now(), code))
        if len(recorder.outside) > FULL or recorder.when_used is not None:
            _look_after(recorder)


def _look_after(recorder: StageRecorder) -> None:
    with recorder.faults.guard("what went through queues in this process"):
        recorder.use()
        recorder.relieve()
