"""Faults of the machine: its devices, its memory, and the cores that a process gets."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft
from benchmarks.corpus.faults.recipes import clearly

# What a finding of each kind needs; a fault has clearly more.
_IDLE: Final = 0.50  # utilisation below
_HOT_C: Final = 5.0  # degrees below the slowdown point
_HELD_BACK: Final = 0.10  # of the readings
_RAM: Final = 0.90
_RSS: Final = 0.80
_CORES: Final = 0.95  # of those that are allowed
_NO_CORE: Final = 0.10  # of the time
_UNEXPLAINED: Final = ("hw_power_brake_slowdown", "hw_slowdown", "sw_power_cap,hw_slowdown")


def low_gpu_utilization(chance: np.random.Generator) -> Draft:
    """Keep the devices idle with nothing that explains it: launching kernels is too slow."""
    draft = _draft(chance, "device")
    draft.machine.utilisation = (chance.uniform(0.05, _IDLE / 1.3),) * 2
    issued = np.zeros(draft.shape)
    for phase, matrix in draft.device_ms.items():
        issued += 0.97 * matrix - draft.work_ms[phase]
        draft.work_ms[phase] = 0.97 * matrix
    draft.work_ms["other"] = np.maximum(draft.work_ms["other"] - issued, 0.0)
    if chance.random() < 0.3 and draft.ranks == 1:
        draft.device_ms = {}
    return draft


def gpu_temperature(chance: np.random.Generator) -> Draft:
    """Run the devices within a few degrees of where they are slowed down."""
    draft = _draft(chance, "device", "blind")
    machine = draft.machine
    machine.slowdown_temperature_c = float(chance.choice([87.0, 90.0, 92.0, 95.0]))
    hot = machine.slowdown_temperature_c - chance.uniform(0.2, _HOT_C / 1.6)
    machine.temperature_c = (hot - chance.uniform(0.0, 1.0), hot)
    return draft


def gpu_throttled(chance: np.random.Generator) -> Draft:
    """Hold the clocks back for a good part of the time, because of heat or of the board."""
    draft = _draft(chance, "device", "blind")
    machine = draft.machine
    machine.throttle_share = clearly(chance, 1.2 * _HELD_BACK, most=8.0, cap=0.95)
    machine.throttled_clock_share = chance.uniform(0.4, 0.88)
    if chance.random() < 0.5:
        machine.throttle_reasons = "hw_thermal_slowdown"
        hot = machine.slowdown_temperature_c - chance.uniform(0.0, 2.0)
        machine.temperature_c = (hot, hot)
        draft.also = frozenset(("GPU_TEMPERATURE",))
        return draft
    machine.throttle_reasons = str(chance.choice(_UNEXPLAINED))
    return draft


def high_ram(chance: np.random.Generator) -> Draft:
    """Fill the node's memory, mostly with what is not this run's."""
    draft = _draft(chance, "host", "device", "blind")
    share = chance.uniform(_RAM + 0.02, 0.99)
    draft.machine.ram_share = (chance.uniform(0.6, share), share)
    return draft


def high_rss(chance: np.random.Generator) -> Draft:
    """Let a rank's process, with its workers, hold most of the node's memory."""
    draft = _draft(chance, "host", "device", ranks=(1,))
    machine = draft.machine
    share = chance.uniform(_RSS + 0.03, 0.96)
    machine.rss_share = (share, share)
    machine.ram_share = (share + 0.01, min(0.99, share + 0.02))
    draft.memory["rss_bytes"] = np.full(draft.shape, 0.8 * share * machine.ram_bytes)
    if share + 0.02 > 0.88:
        draft.unclear = frozenset(("MEMORY_PRESSURE", "HIGH_RAM"))
    return draft


def high_cpu(chance: np.random.Generator) -> Draft:
    """Use all the cores that there are beside a device that has to be fed."""
    draft = _draft(chance, "device", "blind", ranks=(1,))
    machine = draft.machine
    machine.allowed_cores = float(chance.choice([4.0, 6.0, 8.0]))
    machine.cpu_count = int(machine.allowed_cores)
    used = chance.uniform(_CORES + 0.02, 1.0) * machine.allowed_cores
    own = chance.uniform(1.0, 2.0)
    machine.cpu_cores = (own, own)
    machine.workers_cpu_cores = used - own
    machine.node_cpu_share = (used / machine.cpu_count,) * 2
    return draft


def cpu_oversubscribed(chance: np.random.Generator) -> Draft:
    """Let the training thread wait for a core: too many threads, neighbours, or a quota."""
    draft = _draft(chance, "host", "host", "device", ranks=(1, 1, 2, 4))
    machine = draft.machine
    per_node = draft.nodes.count(draft.nodes[0])
    machine.run_queue_share = clearly(chance, _NO_CORE, most=6.0, cap=0.6)
    machine.involuntary_per_s = chance.uniform(100.0, 2_000.0)
    machine.allowed_cores = float(chance.choice([2.0, 4.0]))
    machine.cpu_count = int(machine.allowed_cores)
    own = min(chance.uniform(0.5, 0.9), 0.8 * machine.allowed_cores / per_node)
    machine.cpu_cores, machine.workers_cpu_cores = (own, own), 0.0
    machine.node_cpu_share = (0.99, 0.99)
    cause = str(chance.choice(["threads", "neighbours", "quota"]))
    if cause == "quota":
        machine.throttled_share = 0.9 * machine.run_queue_share
    machine.threads = 64 if cause == "threads" else 20
    if draft.setup.device_kind != "cpu":
        draft.unclear = frozenset(("HIGH_CPU",))
    return draft


def _draft(
    chance: np.random.Generator, *clocks: str, ranks: tuple[int, ...] = (1, 1, 2, 4, 8)
) -> Draft:
    """Draft a healthy run that lasts for a good number of readings, and take them all."""
    draft = draft_clean(
        chance,
        Wanted(
            clock=str(chance.choice(clocks)), ranks=ranks, step_ms=(30.0, 500.0), wall_s=40.0,
            readings=True,
        ),
    )  # fmt: skip
    draft.machine.interval_s = float(chance.choice([0.5, 1.0]))
    return draft


SYSTEM_FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "LOW_GPU_UTILIZATION": low_gpu_utilization,
    "GPU_TEMPERATURE": gpu_temperature,
    "GPU_THROTTLED": gpu_throttled,
    "HIGH_RAM": high_ram,
}
PROCESS_FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "HIGH_RSS": high_rss,
    "HIGH_CPU": high_cpu,
    "CPU_OVERSUBSCRIBED": cpu_oversubscribed,
}
