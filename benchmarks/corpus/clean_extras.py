"""What healthy runs do beside their steps: epochs, evaluations, checkpoints, memory, the machine."""

import numpy as np

from benchmarks.corpus.draft import Draft, Happening
from traintrace.facts import EPOCH_FIRST
from traintrace_analysis.step_window import Floats

_GIB = 2**30


def add_work_between(draft: Draft) -> None:
    """Add epochs, evaluations, checkpoints, logging and a collection, each under its limit."""
    chance = draft.chance
    wall_ms = float(draft.step_work_ms()[0].sum())
    _add_epochs(draft, wall_ms)
    for account, most, odds in (
        ("evaluation", 0.07, 0.4),
        ("checkpoint", 0.035, 0.4),
        ("logging", 0.03, 0.3),
    ):
        if chance.random() < odds:
            times = int(chance.integers(1, 6))
            spend_between(draft, account, wall_ms * chance.uniform(0.1, 1.0) * most, times)
    if chance.random() < 0.5:
        gap = wall_ms * chance.uniform(0.0005, 0.04) / draft.steps
        drawn = chance.gamma(4.0, 0.25, size=draft.shape) * gap
        drawn[:, 0] = 0.0
        draft.before_ms["gap"] = drawn
    _add_collections(draft)


def spend_between(draft: Draft, account: str, total_ms: float, times: int) -> None:
    """Spend `total_ms` in an account, in about equal parts before `times` steps across the run."""
    last = draft.steps - 1
    places = np.unique(np.linspace(last / times, last, times).astype(int)) + 1
    # Frameworks run a validation from a hook of the step that it follows.
    inside = account in ("evaluation", "checkpoint") and draft.chance.random() < 0.4
    for place in places:
        part = total_ms / len(places) * draft.chance.uniform(0.9, 1.1)
        draft.add_between(account, int(place), part, inside=inside)
        if account in ("evaluation", "checkpoint"):
            for rank in range(draft.ranks):
                draft.happenings.append(Happening(rank, int(place), account, "", part))


def _add_epochs(draft: Draft, wall_ms: float) -> None:
    chance = draft.chance
    draft.epochs = int(chance.choice([1, 1, 2, 3, 5]))
    if draft.steps < 20 * draft.epochs:
        draft.epochs = 1
    cost = wall_ms * chance.uniform(0.002, 0.033) / draft.epochs
    for first in np.linspace(0, draft.steps, draft.epochs, endpoint=False).astype(int):
        draft.flags[:, first] |= EPOCH_FIRST
        draft.add_between("epoch_boundary", int(first) + 1, 0.4 * cost)
        draft.work_ms["input_wait"][:, first] += 0.6 * cost


def _add_collections(draft: Draft) -> None:
    """Collect garbage a little in every step, and once for long: one pause is no cause."""
    chance = draft.chance
    if chance.random() < 0.3:
        return
    step_ms = draft.step_work_ms()
    draft.gc_ms = step_ms * chance.uniform(0.0002, 0.01)
    if chance.random() < 0.5:
        place, rank = int(chance.integers(draft.steps // 2, draft.steps)), 0
        pause = min(60.0, 0.005 * float(step_ms[0].sum()))
        draft.gc_ms[rank, place] += pause
        draft.work_ms["forward"][rank, place] += pause
        draft.happenings.append(Happening(rank, place + 1, "gc", "", pause))


def describe_memory(draft: Draft, clock: str) -> None:
    """Fill memory as healthy runs do: up to a plateau, with the allocator's pool above it."""
    chance = draft.chance
    if chance.random() < 0.2:
        return
    filling = _filling(draft)
    ripple = 1.0 + chance.uniform(0.001, 0.03) * chance.standard_normal(draft.shape)
    rss = chance.uniform(1.0, 4.0) * _GIB
    teeth = np.zeros(draft.steps)
    if chance.random() < 0.3:  # garbage that is collected now and then
        period = int(chance.integers(4, max(5, draft.steps // 4)))
        teeth = chance.uniform(0.01, 0.1) * ((np.arange(draft.steps) % period) / period)
    draft.memory["rss_bytes"] = rss * (0.8 + 0.2 * filling + teeth) * (1.0 + (ripple - 1.0) * 0.2)
    if clock == "host":
        return
    total = draft.machine.device_memory_bytes
    peak = total * chance.uniform(0.2, 0.72)
    allocated = peak * filling * np.minimum(ripple, 1.02)
    draft.memory["peak_allocated_bytes"] = allocated
    pool = np.maximum.accumulate(allocated, axis=1) * chance.uniform(1.03, 1.12)
    draft.memory["peak_reserved_bytes"] = pool
    draft.process_peak_bytes = int(allocated.max())
    used = float(pool.max()) / total + 0.01
    for rank in range(draft.ranks):
        draft.machine.device_memory_share[rank] = (used, used)


def _filling(draft: Draft) -> Floats:
    """Fill up to a plateau that is reached early: along a line, in one step, or ever more slowly."""
    chance = draft.chance
    place = (np.arange(draft.steps) + 1) / draft.steps
    shape = str(chance.choice(["line", "jump", "saturation"]))
    if shape == "line":
        return np.minimum(1.0, 0.6 + 0.4 * place / chance.uniform(0.02, 0.5))
    if shape == "jump":
        return np.where(place < chance.uniform(0.02, 0.8), chance.uniform(0.7, 0.95), 1.0)
    filled: Floats = 1.0 - 0.4 * np.exp(-place / chance.uniform(0.02, 0.15))
    return filled


def describe_machine(draft: Draft, clock: str, *, always: bool = False) -> None:
    """Give the samplers a machine with room to spare; some runs take no readings."""
    chance, machine = draft.chance, draft.machine
    machine.interval_s = float(chance.choice([0.5, 1.0, 2.0, 5.0]))
    per_node = draft.nodes.count(draft.nodes[0])
    machine.cpu_count = 16 * per_node
    machine.allowed_cores = 16.0 if chance.random() < 0.15 else float(machine.cpu_count)
    own, workers = chance.uniform(0.8, 3.0), chance.uniform(0.2, 4.0)
    workers = workers if draft.setup.loader.workers else 0.0
    held = float(draft.memory["rss_bytes"].max()) if "rss_bytes" in draft.memory else 2.0 * _GIB
    tree = held / 0.8 / machine.ram_bytes
    if always or chance.random() < 0.8:
        others = chance.uniform(0.01, 0.3)
        ram = max(chance.uniform(0.15, 0.7), min(0.78, tree * per_node + 0.05))
        machine.node_cpu_share = ((own + workers) / 16.0 + others,) * 2
        machine.ram_share = (ram, ram)
    if always or chance.random() < 0.8:
        machine.cpu_cores, machine.workers_cpu_cores = (own, own), workers
        machine.rss_share = (tree, tree)
        machine.run_queue_share = chance.uniform(0.0, 0.03)
        machine.involuntary_per_s = chance.uniform(0.0, 30.0)
    if clock != "host" and (always or chance.random() < 0.8):
        machine.utilisation = (chance.uniform(0.65, 0.99),) * 2
        machine.power_share = (chance.uniform(0.4, 0.9),) * 2
        machine.temperature_c = (chance.uniform(45.0, 60.0), chance.uniform(55.0, 78.0))
        machine.clock_share = (chance.uniform(0.85, 0.99),) * 2
        if chance.random() < 0.2:  # at its power limit now and then, as a busy device is
            machine.throttle_reasons, machine.throttle_share = "sw_power_cap", 0.3
            machine.throttled_clock_share = 0.9
