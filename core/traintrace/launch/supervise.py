"""Run a training command to its end as if it had been started without us: streams, signals, exit code."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from traintrace.launch.parentdeath import ask_for_death
from traintrace.launch.witness import Witness

# torchrun's own list, and what Slurm and people send to training.
_PASSED_ON: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
# Slurm signals one process after the other, `timeout` one and then the group: this is how long to wait
# until all have what is meant for them. After the end too: the rest must not hit us unheeded.
_SETTLE_S: Final = 0.1
# If SIGCHLD is blocked (by whoever started us) the end of training is found by looking.
_LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How training ended.

    Attributes:
        exit_code: Its exit code, 128 + n if signal n ended it, as a shell says it.
        signal: The number of that signal; None if it ended by itself.
    """

    exit_code: int
    signal: int | None = None


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    death_signal: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Ended:
    """Run `command` to its end; must be called on the main thread.

    Its streams are ours. A signal that reaches this process alone is passed on once; one that reaches the
    whole process group or job step is not. Nothing is ever sent that nobody sent us.

    Args:
        command: What is run.
        environment: Its environment; None hands on ours.
        death_signal: What the kernel sends the command if this process is killed; None is SIGKILL.
        on_start: Told of the command's process once it runs; it must not raise.

    Raises:
        OSError: The command cannot be started.
    """
    tell = on_start or _nobody_asked
    if os.name == "nt":  # no process groups as meant here: the console interrupts everybody
        with subprocess.Popen(command, env=environment) as process:
            tell(process.pid)
            return _ended(process.wait())
    heeded = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    with _arrivals(heeded) as arrived, Witness(heeded) as witness:
        process = _start(command, environment, heeded, death_signal or signal.SIGKILL, witness)
        tell(process.pid)
        signalled = False
        while process.poll() is None:
            numbers = arrived(_LOOK_EVERY_S)
            if numbers:
                signalled = True
                time.sleep(_SETTLE_S)
                _pass_on(numbers | arrived(0), process, witness)
        if signalled or process.returncode != 0:
            time.sleep(_SETTLE_S)
    return _ended(process.returncode)


def _start(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    heeded: list[signal.Signals],
    death_signal: int,
    witness: Witness,
) -> "subprocess.Popen[bytes]":
    """Start the command so that no signal and no death of ours is missed in between."""
    ask = ask_for_death(death_signal)
    launcher = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heeded)

    def prepare() -> None:
        ask()
        if os.getppid() != launcher:
            os._exit(128 + death_signal)
        # What comes from here on must end this process, not run our handlers in it.
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        early = signal.sigpending() & set(heeded)
        process = subprocess.Popen(command, env=environment, preexec_fn=prepare)
        for number in early:  # they came before the process was there, so that it has not got them
            signal.sigwait([number])
            process.send_signal(number)
        if early:
            witness.seen()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _pass_on(numbers: set[int], process: "subprocess.Popen[bytes]", witness: Witness) -> None:
    seen_by_all = witness.seen()
    try:
        if os.getpgid(process.pid) != os.getpgrp():
            seen_by_all = set()  # it has left our group, so that a terminal does not reach it
    except ProcessLookupError:
        return
    for number in numbers - seen_by_all:
        process.send_signal(number)


@contextmanager
def _arrivals(heeded: list[signal.Signals]) -> Iterator[Callable[[float], set[int]]]:
    """Give a function that waits until a signal of `heeded` arrives or a child ends, or some seconds."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    before = {
        # Handlers that do nothing: what counts is the number that Python writes to the pipe.
        number: signal.signal(number, lambda *_: None)
        for number in (*heeded, signal.SIGCHLD)
    }
    previous = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def arrived(timeout_s: float) -> set[int]:
        select.select([read_end], [], [], timeout_s)
        try:
            return set(os.read(read_end, 4096)).intersection(heeded)
        except BlockingIOError:
            return set()

    try:
        yield arrived
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


def _nobody_asked(pid: int) -> None:
    """Do nothing."""


def _ended(returncode: int) -> Ended:
    return Ended(128 - returncode, -returncode) if returncode < 0 else Ended(returncode)
