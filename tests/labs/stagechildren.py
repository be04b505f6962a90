"""What child processes of a traced pipeline do, in a module that a spawned one imports quickly."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import traintrace
from traintrace.registry import REGISTRY


def double(source: Any, sink: Any, ms: float = 3.0) -> None:
    """Work in the stage `double` until there is a None."""
    with traintrace.stage("double") as stage:
        for item in iter(source.get, None):
            time.sleep(ms / 1e3)
            sink.put(2 * item)
            stage.done(tokens=item)


def pass_on(source: Any, sink: Any) -> None:
    """Hand items on without being in a stage."""
    for item in iter(source.get, None):
        sink.put(item)


def look_for_the_run(number: int) -> None:
    """Work in a stage without having been given anything."""
    with traintrace.stage("alone") as stage:
        time.sleep(0.01)
        stage.done(tokens=number)


def wait_and_work(begun: Any) -> None:
    """Enter a stage before a run begins, which nobody sees, and one after that."""
    with traintrace.stage("early"):
        begun.wait(20)
    with traintrace.stage("late") as stage:
        stage.done()


def exit_by_open_blocks() -> None:
    """Exit with the number of blocks that a session would take up here."""
    os._exit(len(REGISTRY.named.blocks()))


def break_down(source: Any, sink: Any) -> None:
    """Raise in the middle of the work on the second item."""
    with traintrace.stage("double"):
        sink.put(source.get())
        source.get()
        time.sleep(0.02)
        raise SystemExit(3)


def be_killed(source: Any, sink: Any, lived: Any) -> None:
    """Work for a while, wait for an item that never comes, and be killed by the signal that cannot be caught."""
    with traintrace.stage("double") as stage:
        for _ in range(20):
            sink.put(source.get())
            time.sleep(0.05)
            stage.done()
        lived.value = time.perf_counter_ns()
        os.kill(os.getpid(), signal.SIGKILL)


def have_a_child(source: Any, sink: Any, method: str) -> None:
    """Let a grandchild of the run do the work, and do some besides."""
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=double, args=(source, sink))
    child.start()
    with traintrace.stage("parent") as stage:
        time.sleep(0.02)
        stage.done()
    child.join()


def train_too(source: Any, sink: Any, folder: str) -> None:
    """Be a process of the run that traces a run of its own."""
    from tests.labs.staged import traced  # loads torch, for which the others need not wait

    with traced(Path(folder)):
        double(source, sink)
