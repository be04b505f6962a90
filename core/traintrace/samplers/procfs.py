"""Read and parse the small files of `/proc`; what is missing or malformed is None."""

import os
from typing import Final, NamedTuple

_MOST_BYTES: Final = 1 << 20
_MOST_DIGITS: Final = 20
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
TICK_NS: Final = 1_000_000_000 // TICKS_PER_S


def read_text(path: str) -> str | None:
    """Give the content of a small file; None if it cannot be read.

    Plain system calls: each gives up the interpreter's lock, and Python's own `open` makes twice as many.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        content = os.read(file, _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(file)
    return content.decode("utf-8", "replace")


def names_in(directory: str) -> list[str]:
    """Give the names in a directory; none if it cannot be read."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def number(text: str | None) -> int | None:
    """Give a whole number that is not negative and fits 64 bits; None if `text` is none."""
    stripped = (text or "").strip()
    is_number = stripped.isascii() and stripped.isdecimal() and len(stripped) <= _MOST_DIGITS
    return int(stripped) if is_number else None


class ProcessStat(NamedTuple):
    """What `/proc/<pid>/stat` tells about one process.

    Attributes:
        cpu_ns: CPU time of all its threads, in ticks of 10 ms. reaped_cpu_ns: of its children that it
            has waited for, and of theirs.
        started: Ticks from the machine's start to the process's; with the pid it names one process.
        has_ended: Nobody has waited for it yet; it holds nothing any more but its times.
    """

    cpu_ns: int
    reaped_cpu_ns: int
    threads: int
    started: int
    rss_bytes: int
    has_ended: bool = False


def parse_stat(text: str | None) -> ProcessStat | None:
    """Parse `/proc/<pid>/stat`. The name in it may hold spaces and brackets."""
    fields = (text or "").rpartition(")")[2].split()
    values = [number(field) for field in fields[11:22]]
    if len(values) < 11 or any(values[i] is None for i in (0, 1, 2, 3, 6, 8, 10)):
        return None
    user, system, reaped_user, reaped_system = (value or 0 for value in values[:4])
    return ProcessStat(
        (user + system) * TICK_NS,
        (reaped_user + reaped_system) * TICK_NS,
        values[6] or 0,
        values[8] or 0,
        (values[10] or 0) * PAGE_BYTES,
        fields[0] in ("Z", "X"),
    )


def parse_schedstat(text: str | None) -> tuple[int | None, int | None]:
    """Parse a thread's `schedstat`: time on a CPU, and time ready without one [ns]."""
    fields = (text or "").split()
    if len(fields) < 2:
        return None, None
    on_cpu, waited = number(fields[0]), number(fields[1])
    return (None, None) if on_cpu is None or waited is None else (on_cpu, waited)


def parse_switches(text: str | None) -> tuple[int | None, int | None]:
    """Parse a thread's `status`: voluntary and involuntary context switches."""
    return (
        keyed_number(text, "voluntary_ctxt_switches:"),
        keyed_number(text, "nonvoluntary_ctxt_switches:"),
    )


def keyed_number(text: str | None, key: str) -> int | None:
    """Give the number that follows `key` at the start of a line."""
    for line in (text or "").splitlines():
        first, _, rest = line.replace("\t", " ").partition(" ")
        if first == key:
            return number(rest)
    return None


def environment_value(text: str | None, name: str) -> str | None:
    """Give a variable from `/proc/<pid>/environ`, as the process was started."""
    for entry in (text or "").split("\0"):
        key, is_set, value = entry.partition("=")
        if is_set and key == name:
            return value
    return None
