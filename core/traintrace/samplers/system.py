"""Read the node as a whole; only the rank with local rank 0 does, so that a host is counted once."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import psutil

from traintrace.readings import SystemReading
from traintrace.samplers.amounts import Counter, Rate
from traintrace.samplers.cgroups import Cgroups
from traintrace.samplers.procfs import names_in

# Time in which a CPU did nothing for this machine; `guest` is part of `user` already.
_NOT_BUSY: Final = frozenset({"idle", "iowait", "steal", "guest", "guest_nice"})
# Disks that are made of other disks, or of memory: their bytes would count twice, or are no disk's.
_NO_DISKS: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
# Network devices that pass on what another one counts, or that lead nowhere.
_NO_NETWORK: Final = ("lo", "veth", "docker", "br-", "virbr", "ifb", "dummy", "tun", "tap", "cni")
_BYTES_PER_S: Final = 10**12  # no machine's disks or wires move more
_TICK_NS: Final = 10_000_000


class SystemReader:
    """Takes the readings of the node, 0.2 ms of CPU time each."""

    def __init__(self, moment: Callable[[], int], *, root: str = "") -> None:
        """Prepare.

        Args:
            moment: The clock of the rank's steps [ns].
            root: What stands before `/proc` and `/sys`; for tests.
        """
        self._moment = moment
        self._cgroups = Cgroups(root)
        self._sys = f"{root}/sys"
        self._cores = os.cpu_count()
        self._before: int | None = None
        self._cpu = Rate()
        self._read, self._written, self._received, self._sent = (Counter() for _ in range(4))

    def read(self) -> SystemReading:
        """Take a reading now."""
        busy_ns, at_ns = _busy_ns(), self._moment()
        interval = None if self._before is None else max(0, at_ns - self._before)
        self._before = at_ns
        most_bytes = (interval or 0) * _BYTES_PER_S // 10**9
        cores = self._cores or 1
        used, total = self._memory()
        read, written = self._disks()
        received, sent = self._network()
        return SystemReading(
            at_ns=at_ns,
            interval_ns=interval,
            cpu_cores=self._cpu.advance(busy_ns, at_ns, cores, 2 * _TICK_NS * cores),
            cpu_count=self._cores,
            load_1min=_load(),
            ram_used_bytes=used,
            ram_total_bytes=total,
            disk_read_bytes=self._read.advance(read, most_bytes),
            disk_write_bytes=self._written.advance(written, most_bytes),
            network_received_bytes=self._received.advance(received, most_bytes),
            network_sent_bytes=self._sent.advance(sent, most_bytes),
        )

    def _memory(self) -> tuple[int | None, int | None]:
        """Give used and total bytes, of the cgroup where that may have less than the node has."""
        used: int | None = None
        total: int | None = None
        try:
            memory = psutil.virtual_memory()
            used, total = memory.total - memory.available, memory.total
        except (OSError, ValueError, RuntimeError):
            pass  # both stay unknown
        group = self._cgroups.memory()
        if group is None or (total is not None and group[0] >= total):
            return used, total
        return group[1], group[0]

    def _disks(self) -> tuple[int | None, int | None]:
        whole = [n for n in names_in(f"{self._sys}/block") if not n.startswith(_NO_DISKS)]
        try:
            by_name = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        except (OSError, ValueError, RuntimeError):
            return None, None
        chosen = whole or [n for n in by_name if not n.startswith(_NO_DISKS)]
        return _sums(by_name, chosen, "read_bytes", "write_bytes")

    def _network(self) -> tuple[int | None, int | None]:
        """Give bytes received and sent by real devices; in a container there is only the way out."""
        try:
            by_name = psutil.net_io_counters(pernic=True, nowrap=False)
        except (OSError, ValueError, RuntimeError):
            return None, None
        real = [n for n in by_name if os.path.exists(f"{self._sys}/class/net/{n}/device")]
        chosen = real or [n for n in by_name if not n.startswith(_NO_NETWORK)]
        return _sums(by_name, chosen, "bytes_recv", "bytes_sent")


def _sums(
    by_name: Mapping[str, Any], chosen: Iterable[str], first: str, second: str
) -> tuple[int | None, int | None]:
    """Sum two counters over the chosen devices; None if none of them is there."""
    pairs = [
        (getattr(by_name[n], first), getattr(by_name[n], second)) for n in chosen if n in by_name
    ]
    return (sum(p[0] for p in pairs), sum(p[1] for p in pairs)) if pairs else (None, None)


def _busy_ns() -> int | None:
    try:
        times = psutil.cpu_times()._asdict()
    except (OSError, ValueError, RuntimeError):
        return None
    busy_s: float = sum(s for name, s in times.items() if name not in _NOT_BUSY)
    return round(busy_s * 1e9)


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None
