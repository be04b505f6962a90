"""A machine of files: `/proc` and cgroup trees under a folder, for the samplers' `root`."""

from pathlib import Path

TICKS = 100


class FakeMachine:
    """Writes the files that the samplers read."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """Write a file, given by its path on the machine."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")

    def process(
        self,
        pid: str,
        *,
        cpu_s: float = 0.0,
        reaped_s: float = 0.0,
        rss_pages: int = 1,
        threads: int = 1,
        children: str = "",
        environment: str = "",
        started: int = 5,
        state: str = "S",
    ) -> None:
        """Write one process; its name has what makes parsers stumble."""
        times = f"{round(cpu_s * TICKS)} 0 {round(reaped_s * TICKS)} 0"
        head = f"7 (a ) (b 1 2) {state} 1 7 7 0 -1 4194304 9 9 9 9 {times}"
        tail = f"20 0 {threads} 0 {started} 1000000 {rss_pages} 18446744073709551615 1"
        self.write(f"/proc/{pid}/stat", f"{head} {tail}\n")
        self.write(f"/proc/{pid}/task/{pid}/children", children)
        self.write(f"/proc/{pid}/environ", environment)

    def thread(self, thread: int, on_cpu: int, waited: int, given_up: int, lost: int) -> None:
        """Write the counters of a thread of this process."""
        task = f"/proc/self/task/{thread}"
        self.write(f"{task}/schedstat", f"{on_cpu} {waited} 12\n")
        switches = f"voluntary_ctxt_switches:\t{given_up}\nnonvoluntary_ctxt_switches:\t{lost}\n"
        self.write(f"{task}/status", f"Name:\tpython\nThreads:\t3\n{switches}")

    def unified(self, group: str, root: str = "/", mount: str = "/sys/fs/cgroup") -> None:
        """Mount one cgroup tree of version 2 and put the process into `group`."""
        self.write("/proc/self/cgroup", f"0::{group}\n")
        self.write(
            "/proc/self/mountinfo",
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
            f"30 22 0:27 {root} {mount} rw,nosuid shared:9 - cgroup2 cgroup rw\n",
        )

    def split(self, cpu: str, memory: str, cpu_root: str = "/") -> None:
        """Mount cgroup trees of version 1, beside one of version 2 that controls nothing."""
        self.write(
            "/proc/self/cgroup", f"4:memory:{memory}\n3:cpu,cpuacct:{cpu}\n1:name=systemd:/\n0::/\n"
        )
        self.write(
            "/proc/self/mountinfo",
            f"31 1 0:27 {cpu_root} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "33 1 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        )
