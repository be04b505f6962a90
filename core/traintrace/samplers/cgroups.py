"""The limits of this process's cgroups, version 1, 2 and both at once.

A limit of any group around the process holds for it, so the tree is walked from the process's own group
up to the mount point. In a container the mount may show a part of the tree only; limits outside it are
not to be seen, and the mount point itself is then the container's own group.
"""

import re
from typing import Final, NamedTuple

from traintrace.samplers.procfs import keyed_number, number, read_text

# Version 1 says "no limit" by the largest multiple of a page.
_NO_LIMIT: Final = 1 << 60


class Membership(NamedTuple):
    """A line of `/proc/self/cgroup`; the controllers of version 2 are not named there."""

    controllers: frozenset[str]
    path: str


class Mount(NamedTuple):
    """A mounted cgroup tree; of version 2 if it names no controllers."""

    controllers: frozenset[str]
    root: str
    point: str


def parse_memberships(text: str | None) -> list[Membership]:
    """Parse `/proc/self/cgroup`."""
    lines = (line.split(":", 2) for line in (text or "").splitlines())
    return [
        Membership(frozenset(parts[1].split(",")) - {""}, parts[2])
        for parts in lines
        if len(parts) == 3
    ]


def parse_mounts(text: str | None) -> list[Mount]:
    """Parse the cgroup trees out of `/proc/self/mountinfo`."""
    mounts = []
    for line in (text or "").splitlines():
        left, _, right = line.partition(" - ")
        place, kind = left.split(" "), right.split(" ")
        if len(place) < 5 or not kind[0].startswith("cgroup"):
            continue
        options = frozenset(kind[-1].split(",")) if kind[0] == "cgroup" else frozenset[str]()
        mounts.append(Mount(options, _unescaped(place[3]), _unescaped(place[4])))
    return mounts


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def directories(mount: Mount, path: str) -> list[str]:
    """Give the directories of the group `path` and of all groups around it, its own first."""
    base = mount.root.rstrip("/")
    is_inside = path == base or path.startswith(base + "/")
    names = path[len(base) :].strip("/").split("/") if is_inside else []
    if ".." in names:  # the group lies outside of what this namespace shows
        names = []
    places = [mount.point.rstrip("/")]
    for name in filter(None, names):
        places.append(f"{places[-1]}/{name}")
    return places[::-1]


def parse_cpu_max(text: str | None) -> float | None:
    """Give the quota of version 2's `cpu.max` in cores; None if there is none."""
    fields = (text or "").split()
    quota = number(fields[0]) if fields else None
    return _cores(quota, number(fields[1]) if len(fields) > 1 else 100_000)


def _cores(quota: int | None, period: int | None) -> float | None:
    return quota / period if quota and period else None


class Cgroups:
    """The CPU and memory limits of the groups around this process.

    Where they are is looked up once: a process is hardly ever moved. They are read anew each time.

    Attributes:
        is_known: False where no cgroup tree can be seen, as on macOS.
    """

    def __init__(self, root: str = "") -> None:
        memberships = parse_memberships(read_text(f"{root}/proc/self/cgroup"))
        mounts = parse_mounts(read_text(f"{root}/proc/self/mountinfo"))
        self._cpu_is_old, self._cpu = _find("cpu", memberships, mounts, root)
        self._memory_is_old, self._memory = _find("memory", memberships, mounts, root)
        self.is_known = bool(self._cpu)

    def cpu(self) -> tuple[float | None, int | None]:
        """Read the CPU quotas.

        Returns:
            The least quota in cores, None without one; and the time that groups with a quota were held
            back [ns], summed over groups and CPUs: 0 without a quota, None if it cannot be read.
        """
        quotas: list[float] = []
        throttled: int | None = 0 if self.is_known else None
        for place in self._cpu:
            quota = self._quota(place)
            if quota is None:
                continue
            quotas.append(quota)
            held_back = self._throttled(place)
            throttled = None if throttled is None or held_back is None else throttled + held_back
        return min(quotas, default=None), throttled

    def _quota(self, place: str) -> float | None:
        if not self._cpu_is_old:
            return parse_cpu_max(read_text(f"{place}/cpu.max"))
        quota = number(read_text(f"{place}/cpu.cfs_quota_us"))  # -1 is no number here, and no quota
        return _cores(quota, quota and number(read_text(f"{place}/cpu.cfs_period_us")))

    def _throttled(self, place: str) -> int | None:
        text = read_text(f"{place}/cpu.stat")
        if self._cpu_is_old:
            return keyed_number(text, "throttled_time")
        microseconds = keyed_number(text, "throttled_usec")
        return None if microseconds is None else microseconds * 1_000

    def memory(self) -> tuple[int, int | None] | None:
        """Read the least memory limit, and what its group uses of it without files that can be dropped.

        Returns:
            Limit and use in bytes, the use None if it cannot be read; None without a limit.
        """
        name = "memory.limit_in_bytes" if self._memory_is_old else "memory.max"
        limits = [(number(read_text(f"{place}/{name}")), place) for place in self._memory]
        known = [(limit, place) for limit, place in limits if limit and limit < _NO_LIMIT]
        if not known:
            return None
        limit, place = min(known)
        usage = "memory.usage_in_bytes" if self._memory_is_old else "memory.current"
        files = "total_inactive_file" if self._memory_is_old else "inactive_file"
        used = number(read_text(f"{place}/{usage}"))
        if used is None:
            return limit, None
        return limit, max(0, used - (keyed_number(read_text(f"{place}/memory.stat"), files) or 0))


def _find(
    controller: str, memberships: list[Membership], mounts: list[Mount], root: str
) -> tuple[bool, list[str]]:
    """Say whether `controller` is one of version 1, and give the directories of its groups."""
    for is_old, wanted in ((True, frozenset({controller})), (False, frozenset[str]())):
        for membership in memberships:
            for mount in mounts:
                if is_old:
                    fits = wanted <= membership.controllers and wanted <= mount.controllers
                else:
                    fits = not membership.controllers and not mount.controllers
                if fits:
                    places = directories(mount, membership.path)
                    return is_old, [root + place for place in places]
    return False, []
