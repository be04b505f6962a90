"""The thread of a rank that reads the machine, so that training waits for no file."""

import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from traintrace.faults import FaultReporter
from traintrace.ports import UsedDevice
from traintrace.readings import Reading
from traintrace.samplers.devices import DeviceReader
from traintrace.samplers.process import ProcessReader
from traintrace.samplers.processtree import find_processes
from traintrace.samplers.resident import INTERVAL_S, ResidentSamples
from traintrace.samplers.system import SystemReader

# The first readings of a run: one of 3 s has a dozen ...
SHORTEST_S: Final = 0.25
# ... the usual pause, reached after 100 s: a reading then describes a twentieth of what there is ...
USUAL_S: Final = 5.0
_SHARE_OF_THE_RUN: Final = 20
# ... and longer ones from 5.5 hours on. So a day has 10,000 readings, a year 33,000.
_MOST_PER_E_FOLD: Final = 4_000
# So many readings are taken as often as the user asked for; then they become rarer.
_MOST_AS_ASKED: Final = 100_000
# A reading that takes long is taken rarely: at most 0.1 % of one core.
_PAUSE_PER_CPU_S: Final = 1_000
# A last reading this soon after another would tell little.
_LAST_AFTER_S: Final = 0.1
# How long the end of a run waits for a reading that hangs, e.g. in a driver that does.
CLOSE_S: Final = 2.0
# Readings that wait for the drain, which comes twice a second.
_MAX_WAITING: Final = 2_000

Read = Callable[[], Sequence[Reading]]
TABLES: Final = ("process", "system", "devices")


def pause_s(elapsed_s: float, cost_s: float, interval_s: float | None = None) -> float:
    """Give how long to wait for the next reading.

    Args:
        elapsed_s: Since the sampler started.
        cost_s: CPU seconds that a reading takes.
        interval_s: Seconds that the user asks for; None leaves it to us. What asks for readings may
            have ten times our cost, and as many in all as are read in reasonable time.
    """
    if interval_s is not None:
        return max(interval_s, elapsed_s / _MOST_AS_ASKED, cost_s * _PAUSE_PER_CPU_S / 10)
    usual = min(USUAL_S, elapsed_s / _SHARE_OF_THE_RUN)
    return max(SHORTEST_S, usual, elapsed_s / _MOST_PER_E_FOLD, cost_s * _PAUSE_PER_CPU_S)


class Watched(NamedTuple):
    """What a sampler watches besides its own process.

    Attributes:
        local_rank: The rank with 0 reads the node for all.
        used_devices: Gives the accelerators that this process uses now; None where nothing can.
        steps: Read resident memory often enough for each step's.
    """

    local_rank: int
    used_devices: Callable[[], Sequence[UsedDevice]] | None
    steps: bool


class Sampler:
    """Reads until it is closed; what was read waits for the drain.

    Attributes:
        cpu_s: CPU seconds its thread has used.
    """

    def __init__(
        self,
        watched: Watched,
        now: Callable[[], int],
        offset_ns: int,
        faults: FaultReporter,
        unmeasured: MutableMapping[str, str],
        interval_s: float | None = None,
    ) -> None:
        """Prepare; nothing is read before `start`.

        Args:
            watched: What to read.
            now: The clock of the rank's steps [ns, monotonic].
            offset_ns: What makes it Unix time.
            faults: Told once of a reader that fails altogether; that one is asked no more.
            unmeasured: Gets the reason where a signal cannot be measured.
            interval_s: Seconds between two readings; None reads densely at first and rarely later.
        """
        self._interval_s = interval_s
        self._watched = watched
        self._moment = lambda: now() + offset_ns
        self._faults = faults
        self._unmeasured = unmeasured
        self._resident = ResidentSamples(now) if watched.steps else None
        self._readers: dict[str, Read] = {}
        self._taken: dict[str, deque[Reading]] = {
            table: deque(maxlen=_MAX_WAITING) for table in TABLES
        }
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_s = 0.0

    def start(self, thread: int) -> None:
        """Start reading.

        Args:
            thread: Native id of the training thread.
        """
        run = partial(self._run, thread)
        self._thread = threading.Thread(target=run, name="traintrace-sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take a last reading and stop; a second call does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                self._faults.warn("a reading of the machine hangs; its last readings are missing")
                return
        if self._resident is not None:
            self._resident.close()

    def largest_resident_until(self, moment: int) -> int | None:
        """Take the readings of resident memory up to `moment` [ns, monotonic]; give the largest."""
        return None if self._resident is None else self._resident.largest_until(moment)

    def take(self) -> dict[str, list[Reading]]:
        """Take what was read since the last call, by table."""
        return {
            table: [waiting.popleft() for _ in range(len(waiting))]
            for table, waiting in self._taken.items()
        }

    def _run(self, thread: int) -> None:
        devices = None
        with self._faults.guard("the readings of the machine"):
            devices = self._prepare(thread)
        began = due = last = time.monotonic()
        # The less of two: the first reading, and the one that loads NVML, take longer than all others.
        costs_s = deque([0.0], maxlen=2)
        is_over = False
        while not is_over:  # once at least, however short the run
            if self._resident is not None:
                self._resident.add()
            if time.monotonic() >= due:
                costs_s.append(self._read_all())
                last = time.monotonic()
                due = last + pause_s(last - began, min(costs_s), self._interval_s)
            self.cpu_s = time.thread_time()
            until_due = due - time.monotonic()
            pause = until_due if self._resident is None else min(INTERVAL_S, until_due)
            is_over = self._stop.wait(pause)
        if time.monotonic() - last >= _LAST_AFTER_S:
            self._read_all()
        if devices is not None:
            devices.close()
        self.cpu_s = time.thread_time()

    def _prepare(self, thread: int) -> DeviceReader | None:
        watched, moment, devices = self._watched, self._moment, None
        process = ProcessReader(thread, find_processes(watched.local_rank), moment)
        self._readers["process"] = lambda: [process.read()]
        if watched.local_rank == 0:
            system = SystemReader(moment)
            self._readers["system"] = lambda: [system.read()]
        if watched.used_devices is not None:
            devices = DeviceReader(watched.used_devices, moment, self._unmeasured)
            self._readers["devices"] = devices.read
        return devices

    def _read_all(self) -> float:
        """Ask every reader once; give the CPU seconds it took."""
        began = time.thread_time()
        for table, read in list(self._readers.items()):
            try:
                self._taken[table].extend(read())
            except Exception as error:  # noqa: BLE001 - one kind of reading is lost, and said so
                del self._readers[table]
                self._faults.fault(error, f"the readings of {table}")
        return time.thread_time() - began
