"""Readings of a node: which disks and wires count, whose memory limit holds, and what may be missing."""

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.core.fake_machine import FakeMachine
from traintrace.samplers.system import SystemReader
from traintrace.testing import FakeClock

S = 1_000_000_000
GIB = 1 << 30
Times = namedtuple("Times", "user system idle iowait irq steal guest")


class Node:
    """What psutil tells, and a reader of it under a clock that the test moves."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine, self.clock = FakeMachine(root), FakeClock()
        self.times = Times(10.0, 5.0, 100.0, 3.0, 0.5, 9.0, 4.0)
        self.disks: dict[str, Any] = {}
        self.wires: dict[str, Any] = {}
        monkeypatch.setattr("os.cpu_count", lambda: 4)
        monkeypatch.setattr(psutil, "cpu_times", lambda: self.times)
        monkeypatch.setattr(psutil, "disk_io_counters", lambda **options: self.disks)
        monkeypatch.setattr(psutil, "net_io_counters", lambda **options: self.wires)
        memory = SimpleNamespace(total=64 * GIB, available=48 * GIB)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
        self.reader = SystemReader(self.clock, root=str(root))

    def disk(self, name: str, read: int, written: int) -> None:
        self.disks[name] = SimpleNamespace(read_bytes=read, write_bytes=written)

    def wire(self, name: str, received: int, sent: int) -> None:
        self.wires[name] = SimpleNamespace(bytes_recv=received, bytes_sent=sent)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_amounts_and_busy_cores_are_of_the_time_since_the_reading_before(node: Node) -> None:
    node.disk("sda", 100, 1_000)
    node.wire("eth0", 7, 9)
    first = node.reader.read()
    assert (first.interval_ns, first.cpu_cores, first.disk_read_bytes) == (None, None, None)
    assert (first.ram_used_bytes, first.ram_total_bytes) == (16 * GIB, 64 * GIB)
    node.times = Times(
        13.0, 6.0, 100.0, 9.0, 0.5, 19.0, 8.0
    )  # guest time is in user, steal is nobody's
    node.disk("sda", 600, 3_000)
    node.wire("eth0", 17, 39)
    node.clock.advance(2 * S)
    second = node.reader.read()
    assert (second.interval_ns, second.cpu_cores, second.cpu_count) == (2 * S, 2.0, 4)
    assert (second.disk_read_bytes, second.disk_write_bytes) == (500, 2_000)
    assert (second.network_received_bytes, second.network_sent_bytes) == (10, 30)
    node.disk("sda", 0, 0)  # the counters started over
    node.clock.advance(S)
    assert node.reader.read().disk_read_bytes is None


def test_a_disk_that_is_made_of_others_does_not_count_twice(node: Node) -> None:
    for name in ("nvme0n1", "dm-0", "md127", "loop3", "zram0"):
        node.machine.write(f"/sys/block/{name}/size", "1")
    for moment in range(2):
        for name in ("nvme0n1", "nvme0n1p1", "dm-0", "md127", "loop3", "zram0"):
            node.disk(name, 1_000 * moment, 0)
        node.clock.advance(S)
        reading = node.reader.read()
    assert reading.disk_read_bytes == 1_000


@pytest.mark.parametrize(("has_hardware", "received"), [(True, 100), (False, 10)])
def test_real_network_devices_count_and_in_a_container_the_way_out(
    node: Node, has_hardware: bool, received: int
) -> None:
    if has_hardware:
        node.machine.write("/sys/class/net/ens5/device/vendor", "0x1")
        node.wire("bond0", 0, 0)
        node.wire("ens5", 0, 0)
    for name in ("lo", "docker0", "veth12", "eth0"):
        node.wire(name, 0, 0)
    node.reader.read()
    for name in node.wires:
        node.wire(name, 100 if name == "ens5" else 10, 0)
    node.clock.advance(S)
    assert node.reader.read().network_received_bytes == received


@pytest.mark.parametrize(
    ("limit", "used", "total"), [(8 * GIB, 5 * GIB, 8 * GIB), (99 * GIB, 16 * GIB, 64 * GIB)]
)
def test_the_memory_is_the_cgroups_where_that_may_have_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, used: int, total: int
) -> None:
    machine = FakeMachine(tmp_path)
    machine.unified("/")
    machine.write("/sys/fs/cgroup/memory.max", f"{limit}\n")
    machine.write("/sys/fs/cgroup/memory.current", f"{5 * GIB}\n")
    reading = Node(tmp_path, monkeypatch).reader.read()
    assert (reading.ram_used_bytes, reading.ram_total_bytes) == (used, total)


def test_a_machine_that_tells_nothing_gives_a_reading_of_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: Any) -> Any:
        raise OSError("no such file")

    for name in ("cpu_times", "disk_io_counters", "net_io_counters", "virtual_memory"):
        monkeypatch.setattr(psutil, name, fail)
    monkeypatch.setattr("os.getloadavg", fail, raising=False)
    for _ in range(2):
        node.clock.advance(S)
        reading = node.reader.read()
    assert reading.interval_ns == S
    unknown = ("cpu_cores", "load_1min", "ram_used_bytes", "disk_read_bytes", "network_sent_bytes")
    assert [getattr(reading, name) for name in unknown] == [None] * 5
