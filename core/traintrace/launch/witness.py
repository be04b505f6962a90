"""A process that does nothing but notice which signals reach everybody and not the launcher alone.

Ctrl-C and `timeout` signal a whole process group, Slurm every process of a job step: the training
process has then got the signal already, and a second one would break into its cleaning up. `kill`
signals the launcher alone, which must pass it on. Nothing in a signal tells the two apart; a third
process in the same group does.

Run as a file, so that it loads none of our packages.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType


class Witness:
    """The witness as the launcher sees it; a context that ends the process.

    It is born with the signals blocked, so that they stay pending at it, and ends when the launcher
    does, since its input ends then.
    """

    def __init__(self, signals: Collection[signal.Signals]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        with suppress(OSError):  # no process to spare: see `seen`
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def seen(self) -> set[int]:
        """Give the signals that have reached the witness since this was last asked.

        One that could not be started, or is gone, has seen interrupts and nothing else: they mostly come from a terminal.
        """
        answer = b""
        with suppress(OSError):
            answer = self._ask()
        if not answer.endswith(b"\n"):
            return {signal.SIGINT}
        return {int(word) for word in answer.split()}

    def _ask(self) -> bytes:
        if self._process is None:
            return b""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"?")
        return self._process.stdout.readline()

    def __enter__(self) -> "Witness":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._process.kill()
        with self._process:  # closes its streams and waits
            pass


def _testify() -> None:
    while os.read(0, 1):
        pending = signal.sigpending()
        for number in pending:
            signal.sigwait([number])  # takes it
        os.write(1, " ".join(str(int(number)) for number in pending).encode() + b"\n")


if __name__ == "__main__":
    _testify()
