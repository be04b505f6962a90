"""What a process does to the machine, as the interpreter's audit events tell it."""

import os
import sys
from collections.abc import Callable
from typing import Any, Final

_ALWAYS: Final = (
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.system",
    "os.kill",
    "os.killpg",
    "os.chdir",
    "os.putenv",
    "os.unsetenv",
    "signal.pthread_kill",
    "socket.bind",
    "socket.getaddrinfo",
    "sys._current_frames",
    "sys.setprofile",
    "sys.settrace",
    "urllib.Request",
    "ctypes.dlopen",
)
_WITH_PATH: Final = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink")
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Audit:
    """Notes processes, signals, network and files written outside the sandbox.

    An audit hook cannot be taken off again; it is the harness's own and the same in every process.
    """

    def __init__(self, sandbox: str) -> None:
        self.events: list[str] = []
        self._sandbox = sandbox
        sys.addaudithook(self._hook())

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        def note(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open":
                path, _mode, flags = arguments
                if isinstance(path, str) and (flags or 0) & _WRITES and self._is_outside(path):
                    self.events.append(f"write {path}")
            elif event in _ALWAYS:
                # A library's name, a variable's name; the values may be addresses.
                self.events.append(f"{event} {arguments[0]!r}".replace(self._sandbox, "SANDBOX"))
            elif event == "os.link" and not self._is_outside(str(arguments[1])):
                pass  # an unnamed file of this process gets its name
            elif event in _WITH_PATH and self._is_outside(str(arguments[0])):
                self.events.append(f"{event} {arguments[0]!r}")

        return note

    def _is_outside(self, path: str) -> bool:
        if path.startswith("/dev/") or "__pycache__" in path:
            return False
        return not os.path.abspath(path).startswith(self._sandbox)
