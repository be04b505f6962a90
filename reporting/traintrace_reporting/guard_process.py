"""One training of the guard, in a process of its own: what ends the guard ends the training as well."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from traintrace.errors import TraintraceError
from traintrace.launch.parentdeath import ask_for_death

_PASSED_ON: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class GuardStopped(TraintraceError):
    """A signal ended the guard; the training it was at has ended."""


def run_quietly(command: Sequence[str], folder: Path | None, printed: IO[bytes]) -> int:
    """Run a command to its end, with what it prints in a file, and give its exit code.

    It has a session of its own, so that a terminal's Ctrl-C reaches the guard alone; that, and every
    other signal that asks for an end, is passed on, and the training gets the time to complete its run.

    Args:
        command: What is run.
        folder: Where; None for the working directory.
        printed: Takes its output and its errors.

    Raises:
        GuardStopped: A signal came; the command has ended.
    """
    prepare = _dying_with_us() if os.name != "nt" else None
    got: list[int] = []
    with _signals(got.append) as processes:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
        )
        processes.append(process)
        for number in tuple(got):  # they came before the process was there
            process.send_signal(number)
        code = process.wait()
    if got:
        raise GuardStopped(f"stopped by {signal.Signals(got[0]).name}")
    return code


def _dying_with_us() -> Callable[[], None]:
    """Give what the command does first: it ends when the guard is killed, and heeds signals as usual."""
    ask = ask_for_death(signal.SIGTERM)

    def prepare() -> None:
        ask()
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)

    return prepare


@contextmanager
def _signals(
    told: Callable[[int], None],
) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Pass signals on to the processes in the list that it gives; only the main thread can."""
    processes: list[subprocess.Popen[bytes]] = []
    if threading.current_thread() is not threading.main_thread():
        yield processes
        return

    def pass_on(number: int, _: object) -> None:
        told(number)
        for process in processes:
            process.send_signal(number)

    heeded = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield processes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
