"""A training process that things happen to: pure Python steps, each of them told to a file of its own.

    python -m benchmarks.faults.workload OPTIONS      OPTIONS: `Workload` as JSON

A line of the file is written when its step is completed, so that the truth survives what the record
must survive. Moments are of the monotonic clock, which all processes of a machine share.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MARKS = (("INPUT_WAIT", 0.2), ("FORWARD", 0.4), ("BACKWARD", 0.3), ("OPTIMIZER", 0.1))


@dataclass(frozen=True, slots=True)
class Workload:
    """What to train.

    Attributes:
        run_dir: Where the run goes.
        truth: File that gets a line a step.
        traced: False trains the same without a tracer.
        step_ms: About how long a step takes; part of it computes.
        report: Make the report at the end, as a plugin does.
        mischief: What the process does to itself, by name; empty for nothing.
        at_step: When it does it.
    """

    run_dir: str
    truth: str
    traced: bool = True
    steps: int = 200
    step_ms: float = 12.0
    report: bool = True
    mischief: str = ""
    at_step: int = 0

    def to_json(self) -> str:
        """Give it as the command line takes it."""
        return json.dumps(asdict(self))


class Truth:
    """The lines of the steps; one write each, which is never torn."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o666)

    def tell(self, *words: object) -> None:
        """Append one line."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def open_session(workload: Workload, truth: Truth) -> Any:
    """Open a session as a plugin does; None if training is not traced."""
    if not workload.traced:
        return None
    from traintrace.options import TraceOptions
    from traintrace.ports import PluginIdentity, Ports
    from traintrace.session import Session

    def make_report(run: Any, show: bool) -> None:
        from traintrace_reporting.finish import finish_run

        summary = finish_run(run, print_report=False, stream=None)
        truth.tell("reported", summary["counts"]["steps"])

    session = Session(
        TraceOptions(run_dir=workload.run_dir, name="run"),
        PluginIdentity("faults", "0.1.0", "none", "0"),
        Ports(),
        on_finish=make_report if workload.report else None,
    )
    session.begin()
    return session


def one_step(session: Any, state: float, step_ms: float) -> float:
    """Do one step: part of it computes, part of it sleeps; give the new loss."""
    from traintrace import accounts

    for name, share in MARKS:
        account = getattr(accounts, name)
        if session is not None:
            session.journal.write(account)
        for _ in range(2000):
            state = (state * 3.9) * (1.0 - state)
        time.sleep(step_ms * share / 1e3 / 2)
        if session is not None:
            session.journal.write(~account)
    if session is not None:
        session.capture.log("loss", state)
        session.capture.complete()
    return state


def train(workload: Workload, do_mischief: Callable[[Workload], None]) -> None:
    """Train, and tell the truth about it."""
    truth = Truth(workload.truth)
    session = open_session(workload, truth)
    error: BaseException | None = None
    try:
        state = 0.4
        truth.tell("begin", 0, time.perf_counter_ns())
        for step in range(1, workload.steps + 1):
            if step == workload.at_step:
                do_mischief(workload)
            state = one_step(session, state, workload.step_ms)
            truth.tell("step", step, time.perf_counter_ns(), state.hex())
    except BaseException as raised:
        error = raised
        raise
    finally:
        if session is not None:
            from traintrace.session import status_of

            session.finish(status_of(error), error)
    truth.tell("end", 0, time.perf_counter_ns())


def before_start(workload: Workload) -> None:
    """Do what has to be there before the tracer starts."""
    if workload.mischief == "grace":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if workload.mischief == "slow disk":
        _slow_disk()


def _slow_disk() -> None:
    """Let each transaction wait as for a slow disk; the wait gives the interpreter's lock up, as fsync does."""
    from traintrace.store.writer import RankWriter

    write: Any = RankWriter._write

    def slow_write(self: Any, *rest: Any) -> None:
        write(self, *rest)
        time.sleep(0.7)

    RankWriter._write = slow_write  # type: ignore[method-assign, assignment]


def do_mischief(workload: Workload) -> None:
    """Do in the middle of training what `mischief` names."""
    kind = workload.mischief
    if kind == "eat memory":
        eaten = []
        while True:
            eaten.append(b"\1" * (1 << 24))
    if kind.startswith("clock"):
        _shift_wall_clock(3600.0 if kind == "clock forward" else -3600.0)
    if kind.startswith("fork"):
        _fork(kind)


def _shift_wall_clock(seconds: float) -> None:
    """Set the wall clock, as this process sees it."""
    unix, unix_ns = time.time, time.time_ns
    time.time = lambda: unix() + seconds
    time.time_ns = lambda: unix_ns() + int(seconds * 1e9)


def _fork(kind: str) -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if kind == "fork and kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "fork and exit":
        raise SystemExit(0)  # runs handlers and finalizers of the copy
    time.sleep(0.05)
    os._exit(0)


def main() -> None:
    """Train what the command line says."""
    workload = Workload(**json.loads(sys.argv[1]))
    Path(workload.truth).parent.mkdir(parents=True, exist_ok=True)
    before_start(workload)
    train(workload, do_mischief)


if __name__ == "__main__":
    main()
