"""Whether the process that recorded still lives, as far as this machine can tell.

A process id alone says little: it is used again, and means nothing on another machine or in another
container. So a record holds the moment at which the process started (in ticks since the machine did)
and a mark of the machine: a digest that is different in every record, so that it identifies no machine.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STATE, _START_TICKS = 0, 19  # places in what follows the name in /proc/PID/stat


def describe_process() -> dict[str, int | str] | None:
    """Give what a reader needs to tell whether this process lives; None where that cannot be known."""
    salt = secrets.token_hex(4)
    machine, stat = _machine(salt), _stat(os.getpid())
    if machine is None or stat is None:
        return None
    ticks = int(stat[_START_TICKS])
    return {"pid": os.getpid(), "started": ticks, "salt": salt, "machine": machine}


def age_of_process_s() -> float | None:
    """Give the seconds since this process began; None where that cannot be known."""
    stat = _stat(os.getpid())
    if stat is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    began_s = int(stat[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)


def is_dead(record: object) -> bool:
    """Say whether the process of a record is known to have ended; False also where nobody knows."""
    if not isinstance(record, Mapping) or not isinstance(record.get("pid"), int):
        return False
    machine = record.get("machine")
    if machine is None or machine != _machine(str(record.get("salt"))):
        return False
    stat = _stat(record["pid"])
    if stat is None:
        return True
    return stat[_STATE] in ("Z", "X") or int(stat[_START_TICKS]) != record.get("started")


def _machine(salt: str) -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        # Processes of another container have other ids.
        space = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None
    return hashlib.sha256(f"{salt} {boot} {space}".encode()).hexdigest()[:16]


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold blanks and brackets; what follows its last bracket does not.
    return text.rpartition(")")[2].split()
