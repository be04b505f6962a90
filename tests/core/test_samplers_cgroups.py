"""Limits of cgroups: both versions, groups inside groups, containers, and files that are not there."""

import itertools
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fake_machine import FakeMachine
from traintrace.samplers import allowance, cpu_count
from traintrace.samplers.cgroups import (
    Cgroups,
    Mount,
    directories,
    parse_cpu_max,
    parse_memberships,
    parse_mounts,
)

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def limits(machine: FakeMachine) -> Cgroups:
    return Cgroups(str(machine.root))


def test_the_least_quota_on_the_way_up_holds_and_the_memory_limit_is_its_groups(
    machine: FakeMachine,
) -> None:
    machine.unified("/jobs/mine")
    machine.write("/sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n")
    machine.write("/sys/fs/cgroup/jobs/mine/memory.max", "max\n")
    machine.write("/sys/fs/cgroup/jobs/cpu.max", "150000 100000\n")
    machine.write("/sys/fs/cgroup/jobs/cpu.stat", "usage_usec 9\nthrottled_usec 2500\n")
    machine.write("/sys/fs/cgroup/jobs/memory.max", f"{4 * GIB}\n")
    machine.write("/sys/fs/cgroup/jobs/memory.current", f"{3 * GIB}\n")
    machine.write("/sys/fs/cgroup/jobs/memory.stat", f"anon 1\ninactive_file {GIB}\n")
    assert limits(machine).cpu() == (1.5, 2_500_000)
    assert limits(machine).memory() == (4 * GIB, 2 * GIB)


def test_a_container_sees_its_own_group_at_the_mount_point(machine: FakeMachine) -> None:
    machine.unified("/")
    machine.write("/sys/fs/cgroup/cpu.max", "400000 100000\n")
    machine.write("/sys/fs/cgroup/cpu.stat", "throttled_usec 0\n")
    assert limits(machine).cpu() == (4.0, 0)


def test_the_old_version_has_a_tree_for_each_controller(machine: FakeMachine) -> None:
    machine.split("/docker/abc", "/slurm/job", cpu_root="/docker/abc")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    machine.write("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 4\nthrottled_time 123456\n")
    memory = "/sys/fs/cgroup/memory"
    machine.write(f"{memory}/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write(f"{memory}/slurm/job/memory.limit_in_bytes", f"{GIB}\n")
    machine.write(f"{memory}/slurm/job/memory.usage_in_bytes", f"{GIB // 2}\n")
    assert limits(machine).cpu() == (0.5, 123_456)
    assert limits(machine).memory() == (GIB, GIB // 2)


def test_without_a_quota_nothing_is_held_back_and_without_a_tree_nothing_is_known(
    machine: FakeMachine,
) -> None:
    assert limits(machine).cpu() == (None, None)
    assert limits(machine).memory() is None
    machine.unified("/")
    assert limits(machine).cpu() == (None, 0)
    machine.split("/", "/")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert limits(machine).cpu() == (None, 0)


def test_a_quota_whose_statistics_cannot_be_read_leaves_them_unknown(machine: FakeMachine) -> None:
    machine.unified("/")
    machine.write("/sys/fs/cgroup/cpu.max", "100000 100000\n")
    machine.write("/sys/fs/cgroup/cpu.stat", "throttled_usec soon\n")
    assert limits(machine).cpu() == (1.0, None)
    machine.write("/sys/fs/cgroup/memory.max", f"{GIB}\n")
    assert limits(machine).memory() == (GIB, None)


def test_a_group_outside_of_what_is_mounted_leaves_the_mount_point() -> None:
    everything, part = Mount(frozenset(), "/", "/cg"), Mount(frozenset(), "/docker/a", "/cg")
    assert directories(everything, "/a/b") == ["/cg/a/b", "/cg/a", "/cg"]
    assert directories(part, "/docker/a/b") == ["/cg/b", "/cg"]
    assert directories(part, "/docker/ab") == ["/cg"]
    assert directories(everything, "/../sibling") == ["/cg"]


def test_a_mount_point_with_a_space_is_found() -> None:
    (mount,) = parse_mounts("30 22 0:27 / /sys/my\\040groups rw - cgroup2 cgroup rw")
    assert mount == Mount(frozenset(), "/", "/sys/my groups")


@pytest.mark.parametrize(
    ("affinity", "quota", "cores"),
    [(8, 1.5, 1.5), (2, 6.0, 2.0), (4, None, 4.0), (None, 0.5, 0.5)],
)
def test_the_cores_that_are_allowed_are_the_least_of_affinity_and_quota(
    affinity: int | None, quota: float | None, cores: float
) -> None:
    assert allowance.allowed_cores(affinity, quota) == cores


def test_the_cpu_count_respects_affinity_and_quota(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: set(range(16)), raising=False)
    machine.unified("/")
    assert cpu_count(str(machine.root)) == 16
    machine.write("/sys/fs/cgroup/cpu.max", "250000 100000\n")
    assert cpu_count(str(machine.root)) == 3
    machine.write("/sys/fs/cgroup/cpu.max", "10000 100000\n")
    assert cpu_count(str(machine.root)) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {5}, raising=False)
    machine.write("/sys/fs/cgroup/cpu.max", "250000 100000\n")
    assert cpu_count(str(machine.root)) == 1


@given(st.text())
def test_no_text_makes_the_parsers_raise(text: str) -> None:
    for mount in parse_mounts(text):
        assert directories(mount, "/a/b")
    for membership in parse_memberships(text):
        assert "" not in membership.controllers
    cores = parse_cpu_max(text)
    assert cores is None or (cores > 0 and math.isfinite(cores))


@given(quota=st.integers(1, 10**9), period=st.integers(1_000, 1_000_000))
def test_a_quota_is_its_share_of_the_period(quota: int, period: int) -> None:
    assert parse_cpu_max(f"{quota} {period}\n") == quota / period
    assert parse_cpu_max(f"max {period}\n") is None
    assert parse_cpu_max(f"{'9' * 5_000} {period}\n") is None


@given(st.lists(st.from_regex(r"\A[a-z0-9_.-]{1,8}\Z"), max_size=6))
def test_every_group_around_a_process_is_looked_at(names: list[str]) -> None:
    names = [name for name in names if name != ".."]
    places = directories(Mount(frozenset(), "/", "/cg"), "/" + "/".join(names))
    assert places[-1] == "/cg"
    assert len(places) == len(names) + 1
    for inner, outer in itertools.pairwise(places):
        assert os.path.dirname(inner) == outer
