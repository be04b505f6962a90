"""End with the parent, so that nobody is left when a launcher is killed."""

import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
# A parent that a launcher takes with it may be gone this much before it.
_TOGETHER_MS: Final = 20


def ask_for_death(number: int) -> Callable[[], None]:
    """Give a function that has the kernel send signal `number` to this process when its parent ends.

    The libraries it needs are loaded now: it may be called between fork and exec. On other systems
    than Linux it does nothing.
    """
    if sys.platform != "linux":
        return _nothing
    try:
        prctl: Any = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):  # a C library without it
        return _nothing

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    return ask


def this_process() -> str:
    """Give what a child needs to know to die with this process."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Give what another process needs to know to find process `pid`, which is in our namespace."""
    return f"{pid}@{_process_namespace()}"


def die_with(parent: str) -> None:
    """End by SIGKILL when the process `parent` (its `this_process()`) ends; at once if it has already.

    Where a wrapper stands between the two, e.g. a container, the end of the wrapper counts.
    """
    ask_for_death(signal.SIGKILL)()
    pid, _, namespace = parent.partition("@")
    if sys.platform != "linux" or not pid.isdecimal() or namespace != _process_namespace():
        return
    if os.getppid() != int(pid) and not _lives(int(pid)):
        os.kill(os.getpid(), signal.SIGKILL)


def die_with_launcher(launcher: str) -> None:
    """End by SIGKILL when the process `launcher` (its `name_of()`) ends before our parent has ended.

    For a process whose parent is a rank and no launcher. A rank may end before the ranks that it has started,
    and they go on then; the launcher ends first only if it is killed.
    """
    pid, _, namespace = launcher.partition("@")
    if not pid.isdecimal() or namespace != _process_namespace():
        return
    try:
        watched = [os.pidfd_open(each) for each in (int(pid), os.getppid())]
    except (AttributeError, OSError):  # another system, an old kernel, or it is too late
        return
    thread = threading.Thread(
        target=_end_with_first, args=watched, name="traintrace-launcher", daemon=True
    )
    thread.start()


def _end_with_first(launcher: int, parent: int) -> None:
    ended = select.poll()
    for each in (launcher, parent):
        ended.register(each, select.POLLIN)
    first = {file for file, _ in ended.poll()}
    if launcher not in first:
        ended.unregister(parent)
        first = {file for file, _ in ended.poll(_TOGETHER_MS)}
    if launcher in first:
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(launcher)
    os.close(parent)


def _process_namespace() -> str:
    # In another one the number means another process, or none.
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _nothing() -> None:
    """Do nothing."""
