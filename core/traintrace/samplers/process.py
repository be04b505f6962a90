"""Read this rank: its process, its training thread, its loader workers, and the cores it may use."""

import os
import time
from collections.abc import Callable
from typing import Final

from traintrace.readings import ProcessReading
from traintrace.samplers.allowance import affinity_cores, allowed_cores
from traintrace.samplers.amounts import Counter, Rate
from traintrace.samplers.cgroups import Cgroups
from traintrace.samplers.processtree import Processes
from traintrace.samplers.procfs import TICK_NS, parse_schedstat, parse_switches, read_text

# The kernel brings the totals of a thread that runs up to date at its ticks, 10 ms at most.
_STALE_NS: Final = 20_000_000


class ProcessReader:
    """Takes the readings of one rank, on the thread of its sampler.

    Measured, CPU time of one reading: 0.09 ms without children, 0.4 ms with 8 and 0.9 ms with 32 of them
    (psutil: 1.4, 2.8 and 5.0 ms); the node takes 0.2 ms more. At the usual pause of 5 s that is 0.006
    to 0.02 % of a core, and `sampler.pause_s` keeps it under 0.1 % where readings are dearer or denser.
    """

    def __init__(
        self,
        thread: int,
        processes: Processes,
        moment: Callable[[], int],
        *,
        own_cpu_ns: Callable[[], int | None] = time.process_time_ns,
        pid: int | None = None,
        root: str = "",
    ) -> None:
        """Prepare.

        Args:
            thread: Native id of the training thread.
            processes: Reads this process and its descendants.
            moment: The clock of the rank's steps [ns].
            own_cpu_ns: CPU time of the process, all threads; None where it cannot be read.
            pid: The process that the training thread is in; None for this one.
            root: What stands before `/proc` and `/sys`; for tests.
        """
        self._thread = thread
        self._task = f"{root}/proc/{pid or 'self'}/task/{thread}"
        self._processes = processes
        self._cgroups = Cgroups(root)
        self._moment = moment
        self._own_cpu_ns = own_cpu_ns
        self._cores = os.cpu_count() or 1
        self._before: int | None = None
        self._interval_before = 0
        self._own_rate, self._tree_rate = Rate(), Rate()
        self._on_cpu, self._waited, self._throttled = Counter(), Counter(), Counter()
        self._voluntary, self._involuntary = Counter(), Counter()

    def read(self) -> ProcessReading:
        """Take a reading now."""
        # First and close together, because each file may wait for the interpreter's lock.
        on_cpu, waited = parse_schedstat(read_text(f"{self._task}/schedstat"))
        own_cpu, at_ns = self._own_cpu_ns(), self._moment()
        voluntary, involuntary = parse_switches(read_text(f"{self._task}/status"))
        own = self._processes.own()
        before_tree = self._moment()
        tree = None if own is None else self._processes.tree(own)
        tree_took = self._moment() - before_tree
        quota, throttled = self._cgroups.cpu()
        interval = None if self._before is None else max(0, at_ns - self._before)
        longest = interval or 0
        # A delay is known when it ends: one that began before the reading before may be in it too.
        most_waited = longest + self._interval_before + _STALE_NS
        self._before, self._interval_before = at_ns, longest
        return ProcessReading(
            at_ns=at_ns,
            interval_ns=interval,
            cpu_cores=self._own_rate.advance(own_cpu, at_ns, self._cores, TICK_NS),
            workers_cpu_cores=None
            if tree is None
            else self._tree_rate.advance(
                tree.cpu_ns,
                before_tree + tree_took // 2,
                self._cores,
                2 * TICK_NS * (tree.processes + 1) + tree_took * self._cores,
            ),
            workers=None if tree is None else tree.processes,
            allowed_cores=allowed_cores(affinity_cores(self._thread), quota),
            threads=None if own is None else own.threads,
            rss_bytes=None if own is None else own.rss_bytes,
            workers_rss_bytes=None if tree is None else tree.rss_bytes,
            run_queue_ns=self._waited.advance(waited, most_waited),
            on_cpu_ns=self._on_cpu.advance(on_cpu, longest + _STALE_NS),
            involuntary_switches=self._involuntary.advance(involuntary),
            voluntary_switches=self._voluntary.advance(voluntary),
            throttled_ns=self._throttled.advance(throttled, most_waited * self._cores),
        )
