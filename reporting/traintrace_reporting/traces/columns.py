"""Events of Chrome's trace format, one by one, into the columns of a trace."""

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np

from traintrace_analysis.step_window import Ints
from traintrace_analysis.traces import Trace
from traintrace_analysis.traces.trace import (
    ANNOTATION,
    CALL,
    KERNEL,
    MEMCPY,
    MEMSET,
    OPERATOR,
    UNKNOWN,
)

_ACTIVITY_OF: Final[Mapping[str, int]] = {
    "kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "user_annotation": ANNOTATION,
    "cpu_op": OPERATOR,
    # As older versions wrote them.
    "Kernel": KERNEL,
    "Memcpy": MEMCPY,
    "Memset": MEMSET,
    "Operator": OPERATOR,
    "Runtime": CALL,
}
# Times and numbers beyond this are no times: they would overflow when they are added up.
_LARGEST: Final = 2**61
_LONGEST: Final = 2**50  # 13 days


def nanoseconds(value: Any) -> int | None:
    """Turn microseconds into whole nanoseconds, exactly; None for what is no number.

    Args:
        value: A whole number, or the text of a number as it stands in the file.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value * 1000
    if not isinstance(value, str):
        return None
    whole, _, part = value.partition(".")
    if len(part) <= 3 and len(whole) < 19 and whole.isdecimal() and (part + "0").isdecimal():
        return int(whole) * 1000 + int((part + "000")[:3])
    try:
        exact = Decimal(value) * 1000
        return round(exact) if exact.is_finite() and abs(exact) < _LARGEST else None
    except (InvalidOperation, ValueError):
        return None


class EventColumns:
    """Collects the events that say where time went; counts what it leaves out.

    Attributes:
        seen: Events that were looked at.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._skipped: Counter[str] = Counter()
        self._names: dict[str, int] = {}
        self._groups: dict[str, tuple[int, int | None]] = {}
        self._threads: dict[tuple[Any, Any], int] = {}
        self._activities: dict[str, int | None] = {}
        self._columns: tuple[array[int], ...] = tuple(array(kind) for kind in "qqibiqiqi")

    def add(self, event: object) -> None:
        """Take in one event of the file, whatever it is."""
        self.seen += 1
        if not isinstance(event, dict):
            self._skipped["no objects"] += 1
            return
        if event.get("ph") != "X":
            return
        category = event.get("cat")
        if not isinstance(category, str):
            return
        activity = self._activities.get(category, UNKNOWN)
        if activity == UNKNOWN:
            activity = self._activities[category] = _activity(category)
        if activity is None:
            return
        start, duration = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
        name = event.get("name")
        if start is None or duration is None or not isinstance(name, str):
            self._skipped["no time, length or name"] += 1
        elif duration < 0:
            self._skipped["a negative length"] += 1
        elif start > _LARGEST or start < -_LARGEST or duration > _LONGEST:
            self._skipped["an impossible time"] += 1
        else:
            self._append(activity, start, duration, name, event)

    def _append(
        self, activity: int, start: int, duration: int, name: str, event: dict[str, Any]
    ) -> None:
        given = event.get("args")
        details: dict[str, Any] = given if isinstance(given, dict) else {}
        device = stream = thread = group = UNKNOWN
        if activity <= MEMSET:
            device = _number(details.get("device", event.get("pid")))
            stream = _number(details.get("stream", event.get("tid")))
            group = self._group_of(details)
        else:
            key = str(event.get("pid")), str(event.get("tid"))
            thread = self._threads.setdefault(key, len(self._threads))
        correlation = _correlation(details.get("correlation")) if activity <= CALL else UNKNOWN
        row = (
            start, duration, self._names.setdefault(name, len(self._names)), activity,
            device, stream, thread, correlation, group,
        )  # fmt: skip
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def _group_of(self, details: Mapping[str, Any]) -> int:
        """Give the number of the process group that a kernel names; `UNKNOWN` if it names none.

        Long lists of ranks are shortened, and several groups may have the same ranks: the name tells them apart.
        """
        said = [details.get(key) for key in ("Process Group Ranks", "Process Group Name")]
        text = " ".join(str(one) for one in said if one not in (None, ""))
        if not text:
            return UNKNOWN
        if text not in self._groups:
            ranks = str(said[0] or "")
            listed = None if "..." in ranks else len(re.findall(r"\d+", ranks)) or None
            size = _count(details.get("Group size")) or listed
            self._groups[text] = len(self._groups), size
        return self._groups[text][0]

    def __len__(self) -> int:
        return len(self._columns[0])

    def finish(self, label: str, head: Mapping[str, Any], damage: str | None) -> Trace:
        """Give the trace. Times get the file's base added where it has one.

        Args:
            label: What the trace is called.
            head: The file's other entries.
            damage: What could not be read.
        """
        columns: list[Ints] = [
            np.frombuffer(one, one.typecode) if len(one) else np.empty(0, one.typecode)
            for one in self._columns
        ]
        base = head.get("baseTimeNanoseconds")
        if isinstance(base, int) and not isinstance(base, bool) and abs(base) < _LARGEST:
            columns[0] = columns[0] + base
        columns, again = _without_copies(columns)
        columns, nowhere = _on_a_device(columns)
        for reason, count in (("written twice", again), ("on no device", nowhere)):
            if count:
                self._skipped[reason] += count
        job = head.get("distributedInfo")
        job = job if isinstance(job, dict) else {}
        start, duration, name, activity, device, stream, thread, correlation, group = columns
        return Trace(
            label=label,
            rank=_count(job.get("rank")),
            world_size=_count(job.get("world_size")),
            names=tuple(self._names),
            groups=tuple(self._groups),
            group_sizes=tuple(size for _, size in self._groups.values()),
            start_ns=start,
            duration_ns=duration,
            name=name,
            activity=activity,
            device=device,
            stream=stream,
            thread=thread,
            correlation=correlation,
            group=group,
            group_count=_count(job.get("pg_count")),
            damage=damage,
            skipped=dict(self._skipped),
        )


def _activity(category: str) -> int | None:
    known = _ACTIVITY_OF.get(category)
    if known is None and category.endswith(("_runtime", "_driver")):
        return CALL
    return known


def _number(value: Any) -> int:
    """Give a small whole number, also from text; `UNKNOWN` for anything else."""
    if isinstance(value, str) and len(value) < 12 and value.lstrip("-").isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    return UNKNOWN


def _correlation(value: Any) -> int:
    """Give what a call and its kernels share, of up to 63 bits; `UNKNOWN` for 0, which means just that."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return value
    return UNKNOWN


def _count(value: Any) -> int | None:
    return None if (found := _number(value)) == UNKNOWN else found


def _without_copies(columns: list[Ints]) -> tuple[list[Ints], int]:
    """Leave out device activities and named ranges that stand in the file twice; say how many."""
    start, duration, name, activity, device, stream, thread, correlation, _ = columns
    index = np.flatnonzero((activity <= MEMSET) | (activity == ANNOTATION))
    keys = [
        one[index] for one in (correlation, name, thread, stream, device, activity, duration, start)
    ]
    order = np.lexsort(keys)
    same = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
    if not same.any():
        return columns, 0
    keep = np.ones(len(start), np.bool_)
    keep[index[order[1:][same]]] = False
    return [column[keep] for column in columns], int(same.sum())


def _on_a_device(columns: list[Ints]) -> tuple[list[Ints], int]:
    """Leave out activities of which nothing says the device, where others do; else all are on one; say how many."""
    activity, device = columns[3], columns[4]
    nowhere = (activity <= MEMSET) & (device == UNKNOWN)
    if not nowhere.any():
        return columns, 0
    if (device != UNKNOWN).any():
        return [column[~nowhere] for column in columns], int(nowhere.sum())
    return [*columns[:4], np.where(nowhere, 0, device).astype(device.dtype), *columns[5:]], 0
