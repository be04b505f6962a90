"""Run the standard library's own tests of queues on followed ones: `python -m tests.stages.standard_library MODULE`.

Every queue that those tests make is followed as soon as it is made, and each test runs inside a stage, so that
all that it does itself goes the longer way of a worker; its threads and processes go the other one. With `midway:`
before the module they are followed as those that were named before the session began.
"""

import asyncio
import functools
import inspect
import multiprocessing.managers
import multiprocessing.queues
import queue
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.registry import REGISTRY
from traintrace.stages.inbox import Inbox
from traintrace.stages.queues import follow_midway, follow_queue, followed_as
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage

Follow = Callable[[Any, str, StageRecorder], object]


def follow_all_of(
    module: Any, names: tuple[str, ...], recorder: StageRecorder, follow: Follow = follow_queue
) -> None:
    """Let each queue of the named classes, and of those below them, be followed once it is made."""
    for name in names:
        made: Any = getattr(module, name)
        made.__init__ = _then_followed(made.__init__, recorder, follow)


def _follow_midway(queue: Any, name: str, recorder: StageRecorder) -> None:
    follow_midway(queue, name, recorder, {})


def _then_followed(
    init: Callable[..., None], recorder: StageRecorder, follow: Follow
) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if followed_as(self) is None:
            name = type(self).__name__
            follow(self, name, recorder)
            assert followed_as(self) == name

    return __init__


def follow_proxies(recorder: StageRecorder) -> None:
    """Let each queue that a manager's process holds be followed on this side."""
    for name in ("Queue", "JoinableQueue"):
        make = getattr(multiprocessing.managers.SyncManager, name)
        setattr(multiprocessing.managers.SyncManager, name, _proxy_followed(make, name, recorder))


def _proxy_followed(make: Callable[..., Any], name: str, recorder: StageRecorder) -> Any:
    def made(self: Any, *args: Any, **kwargs: Any) -> Any:
        return follow_queue(make(self, *args, **kwargs), f"a manager's {name}", recorder)

    return made


def in_a_stage(recorder: StageRecorder) -> None:
    """Let each test run inside a stage; an asynchronous one as a task."""
    call = unittest.TestCase._callTestMethod  # type: ignore[attr-defined]
    call_async = unittest.IsolatedAsyncioTestCase._callTestMethod  # type: ignore[attr-defined]

    def _call(self: Any, method: Callable[[], Any]) -> Any:
        with Stage(recorder, "test"):
            return call(self, method)

    def _call_async(self: Any, method: Callable[[], Any]) -> Any:
        @functools.wraps(method)
        async def inside() -> Any:
            with Stage(recorder, "test"):
                result = method()
                return await result if inspect.isawaitable(result) else result

        return call_async(self, inside)

    unittest.TestCase._callTestMethod = _call  # type: ignore[attr-defined]
    unittest.IsolatedAsyncioTestCase._callTestMethod = _call_async  # type: ignore[attr-defined]


def main(argument: str, *patterns: str) -> int:
    """Run the tests of one module of the standard library; give how many failed."""
    way, _, module = argument.rpartition(":")
    follow: Follow = _follow_midway if way == "midway" else follow_queue
    with tempfile.TemporaryDirectory() as folder:
        inbox = Inbox(Path(folder, "stages"), FaultReporter(raise_faults=True))
        recorder = StageRecorder(
            FaultReporter(raise_faults=True), inbox=inbox.path, when_used=inbox.open
        )
        REGISTRY.raise_faults = True
        REGISTRY.recorders.append(recorder)
        tests = __import__(module, fromlist=["*"])
        if module == "test.test_queue":
            for copy in (tests.py_queue, tests.c_queue):
                follow_all_of(copy, ("Queue", "_PySimpleQueue"), recorder, follow)
            tests.c_queue.Empty = queue.Empty
            tests.c_queue.SimpleQueue = lambda: follow_queue(queue.SimpleQueue(), "C", recorder)
        elif "asyncio" in module:
            follow_all_of(asyncio, ("Queue",), recorder, follow)
        else:
            follow_all_of(multiprocessing.queues, ("Queue", "SimpleQueue"), recorder, follow)
            follow_proxies(recorder)
        in_a_stage(recorder)
        loader = unittest.TestLoader()
        loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
        result = unittest.TextTestRunner(verbosity=1).run(loader.loadTestsFromModule(tests))
        children = [updates[-1] for updates in inbox.take().values()]
        puts: dict[str, int] = {}
        for update, where in ((recorder.take(), "here"), *((one, "child") for one in children)):
            for record in update.queues:
                puts[f"{record.name} {where}"] = puts.get(f"{record.name} {where}", 0) + record.puts
        print(f"ran {result.testsRun}, skipped {len(result.skipped)}; puts {puts}")
        recorder.end()
        inbox.close()
        return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
