"""Run faults again and again, some at a time."""

import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.faults import disks, disturbances, processes, rank_jobs
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcome import Fault, Outcome

FAULTS: Final[Mapping[str, Fault]] = {
    "SIGKILL of the only rank": processes.kill_a_process,
    "SIGKILL of one rank": rank_jobs.kill_one_rank,
    "SIGKILL of all ranks": processes.kill_all_ranks,
    "SIGKILL of the launcher": processes.kill_the_launcher,
    "out of memory": processes.out_of_memory,
    "SIGTERM": processes.sigterm,
    "power loss": disks.power_loss,
    "disk full": disks.disk_full,
    "read-only folder": disks.read_only,
    "slow disk": disks.slow_disk,
    "clock jump": disturbances.clock_jump,
    "fork after start": disturbances.fork_after_start,
    "rank never starts": processes.never_starts,
    "hung rank": rank_jobs.hung_rank,
}


def run_all(
    names: Sequence[str], repetitions: int, seed: int, jobs: int
) -> dict[str, list[Outcome]]:
    """Run each fault so many times; moments depend on the seed, the fault and the repetition alone."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {
            name: [pool.submit(run_once, name, f"{seed}-{name}-{n}") for n in range(repetitions)]
            for name in names
        }
        return {name: [one.result() for one in many] for name, many in waiting.items()}


def run_once(name: str, seed: str) -> Outcome:
    """Run one repetition of a fault in a lab of its own."""
    lab = Lab.make()
    try:
        return FAULTS[name](lab, random.Random(seed))
    except Exception as error:  # noqa: BLE001 - one repetition that fails is a result
        return Outcome(
            float("inf"), [f"{type(error).__name__}: {error}: {lab.logs()}"], [], "failed"
        )
    finally:
        lab.close()
