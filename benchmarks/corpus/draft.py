"""A run on the drawing board: what every rank does in every step, before it becomes facts.

Faults change a healthy draft; `runs.py` turns it into the facts that a real run would have left.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from traintrace.facts import Setup
from traintrace_analysis.step_window import Floats, Ints

Sync = Literal["none", "marked", "in_backward"]
# Work of a step before its gradients meet those of the other ranks, in the order of execution.
BEFORE_SYNC: tuple[str, ...] = ("input_wait", "h2d", "batch_prep", "forward", "backward")
AFTER_SYNC: tuple[str, ...] = ("clip", "optimizer", "callbacks", "user", "other")


@dataclass(slots=True)
class Happening:
    """One event: its rank, the step it belongs to, and how long it took [ms], None without a length."""

    rank: int
    step: int
    kind: str
    detail: str = ""
    duration_ms: float | None = None


@dataclass(slots=True)
class Machine:
    """What the samplers would have read, as courses over the run from its start to its end.

    A course is a pair (at the start, at the end) that changes linearly; `noise` is the spread of
    each reading around it, relative. None is not measured.

    Attributes:
        interval_s: Time between two readings.
        node_cpu_share: Busy share of the node's CPUs. ram_share: used share of its memory.
        rss_share: Resident memory of each rank with its workers, as a share of the node's.
        cpu_count: Of the node. allowed_cores: those that each rank may use. cpu_cores: those that its
            process uses, without its workers.
        run_queue_share: Share of time in which the training thread wanted a CPU and had none.
        utilisation, power_share, temperature_c, clock_share: Of each rank's device.
        device_memory_share: Used share of the device's memory.
        throttle_reasons: Why clocks were held back in `throttle_share` of the readings, to
            `throttled_clock_share` of the highest clock.
    """

    interval_s: float = 2.0
    noise: float = 0.03
    cpu_count: int = 16
    ram_bytes: int = 64 * 2**30
    node_cpu_share: tuple[float, float] | None = None
    ram_share: tuple[float, float] | None = None
    rss_share: tuple[float, float] | None = None
    cpu_cores: tuple[float, float] | None = None
    workers_cpu_cores: float = 0.0
    allowed_cores: float = 16.0
    threads: int = 20
    run_queue_share: float = 0.002
    involuntary_per_s: float = 5.0
    throttled_share: float = 0.0
    device_memory_bytes: int = 80 * 10**9
    device_memory_share: dict[int, tuple[float, float]] = field(default_factory=dict)
    utilisation: tuple[float, float] | None = None
    power_share: tuple[float, float] | None = None
    temperature_c: tuple[float, float] | None = None
    slowdown_temperature_c: float = 92.0
    clock_share: tuple[float, float] | None = None
    throttle_reasons: str = ""
    throttle_share: float = 0.0
    throttled_clock_share: float = 0.8


@dataclass(slots=True)
class Draft:
    """One run; matrices are ranks by steps.

    Attributes:
        work_ms: Own work by in-step account, waiting for other ranks left out.
        before_ms: Time before the step by between-step account. inside_ms: the same inside the step,
            where it is no part of step time. startup_ms: before the first.
        device_ms: Time by phase on the device clock; empty on the host clock.
        sync: How the wait for gradients is seen: not there, as `gradient_sync`, or inside backward.
        transfer_ms: What the exchange itself takes, by step; no rank can avoid it.
        flags: Bits of `traintrace.facts`.
        memory: Bytes by column of the steps table. gc_ms: collector's time; None if nobody watched.
        silent: Ranks that never recorded anything. lost: ranks that died after the last step, while
            the others waited in `shutdown_ms` and failed.
        warmup_steps: Leading steps that were made slower on purpose.
        trend: By how much steps are slower at the end than at the beginning, as a share; 0 if not.
        culprits: Ranks that a finding has to name; None where it is about all.
        same: Kinds that say the same where the run does not allow to tell more.
        also, unclear: Kinds that are true, or near their limit, and that the matrices do not tell.
    """

    chance: np.random.Generator
    ranks: int
    steps: int
    setup: Setup
    work_ms: dict[str, Floats]
    flags: Ints
    transfer_ms: Floats
    sync: Sync = "none"
    before_ms: dict[str, Floats] = field(default_factory=dict)
    inside_ms: dict[str, Floats] = field(default_factory=dict)
    device_ms: dict[str, Floats] = field(default_factory=dict)
    startup_ms: float = 50.0
    shutdown_ms: float = 7.0
    samples: Ints | None = None
    tokens: Ints | None = None
    memory: dict[str, Floats] = field(default_factory=dict)
    gc_ms: Floats | None = None
    happenings: list[Happening] = field(default_factory=list)
    nodes: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    machine: Machine = field(default_factory=Machine)
    process_peak_bytes: int | None = None
    epochs: int = 1
    warmup_steps: int = 0
    trend: float = 0.0
    culprits: tuple[int, ...] | None = None
    same: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    unclear: frozenset[str] = frozenset()

    @property
    def shape(self) -> tuple[int, int]:
        """Ranks by steps."""
        return self.ranks, self.steps

    @property
    def on_device(self) -> bool:
        """True if phases have device times."""
        return bool(self.device_ms)

    @property
    def blind(self) -> bool:
        """True if the model runs on a device and only the host was timed."""
        return self.setup.device_kind != "cpu" and not self.device_ms

    def add_between(self, account: str, step: int, ms: float, *, inside: bool = False) -> None:
        """Let every rank spend `ms` in a between-step account before one step (1-based), or inside."""
        side = self.inside_ms if inside else self.before_ms
        side.setdefault(account, np.zeros(self.shape))[:, step - 1] += ms

    def step_work_ms(self) -> Floats:
        """Give each rank's own work in each step."""
        total: Floats = np.sum(list(self.work_ms.values()), axis=0)
        return total

    def waiting_ms(self) -> Floats:
        """Give how long each rank waits for the others in each step, the exchange included.

        All ranks leave the exchange of a step together. So what decides is what each did since the
        exchange before: its work after that, the time between the steps, and its work before this.
        On a device the host runs ahead, and the device's own work decides.
        """
        if self.sync == "none":
            return np.zeros(self.shape)
        device = self.device_ms
        work = {**self.work_ms, **device, "other": np.zeros(self.shape)} if device else self.work_ms
        since = _sum(self.shape, work, BEFORE_SYNC) + _sum(self.shape, self.before_ms)
        after = _sum(self.shape, work, AFTER_SYNC) + _sum(self.shape, self.inside_ms)
        since[:, 1:] += after[:, :-1]
        waiting: Floats = since.max(axis=0) - since + self.transfer_ms
        return waiting


def _sum(
    shape: tuple[int, int], parts: dict[str, Floats], names: tuple[str, ...] | None = None
) -> Floats:
    total = np.zeros(shape)
    for name, matrix in parts.items():
        if names is None or name in names:
            total += matrix
    return total
