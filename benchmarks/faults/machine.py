"""What a fault needs of the machine, each with a way out where that is not permitted."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_MEMORY_GROUPS: Final = Path("/sys/fs/cgroup/memory")
_LIMIT_BYTES: Final = 160 << 20


@contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[str]:
    """Make `folder` a disk of its own, which is soon full; gives how: "tmpfs" or "RLIMIT_FSIZE".

    Without the right to mount, no file that this process or its children write may grow beyond the size.
    """
    if _mount("-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(folder)):
        try:
            yield "tmpfs"
        finally:
            _unmount(folder)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_kb << 10, before[1]))
    try:
        yield "RLIMIT_FSIZE"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(folder: Path) -> Iterator[str]:
    """Make `folder` read-only; gives how: "mount" or "chmod"."""
    if _mount("-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder)):
        try:
            yield "read-only mount"
        finally:
            _unmount(folder)
        return
    folder.chmod(0o555)
    try:
        yield "chmod"
    finally:
        folder.chmod(0o755)


def _mount(*arguments: str) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return (
            subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@contextmanager
def little_memory(name: str, pid: int) -> Iterator[bool]:
    """Let the kernel kill a process that uses more than 160 MB; gives False where that is not permitted."""
    group = _MEMORY_GROUPS / f"traintrace-{name}"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    try:
        (group / "memory.limit_in_bytes").write_text(str(_LIMIT_BYTES), "ascii")
        (group / "cgroup.procs").write_text(str(pid), "ascii")
        yield True
    finally:
        with suppress(OSError):
            group.rmdir()
