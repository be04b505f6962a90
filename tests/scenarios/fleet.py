"""Drafts a job: the own work of every rank, then the waiting that follows from it.

Ranks wait for each other once a step, where their gradients meet: all leave that point together, so
what one rank is late by, each other rank waits longer. Where the beginning of that wait is marked it
is `gradient_sync`; where it is not, it lies in backward (DDP) or in forward and backward (FSDP).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from tests.scenarios.meeting import waits
from tests.scenarios.readings import GB, Gauges, devices_of, process_of, system_of
from tests.scenarios.record import Floats, Ints, Job, RankRecord
from traintrace.facts import (
    COMPILED_KNOWN,
    EPOCH_FIRST,
    Event,
    LoaderSetup,
    Region,
    RunStatus,
    Scalar,
    Setup,
)
from traintrace.flopfacts import FlopFacts
from traintrace.stagefacts import Pipeline

Waiting = Literal["marked", "in backward", "in forward and backward"]

START_NS: Final = 1_700_000_000_000_000_000
# Milliseconds of a healthy step: the model fills it.
STEP: Final[Mapping[str, float]] = {
    "input_wait": 2.0,
    "batch_prep": 0.0,
    "forward": 30.0,
    "backward": 56.0,
    "optimizer": 8.0,
    "other": 2.0,
}
CPU: Final = Setup(
    device_kind="cpu",
    batch_size=32,
    loader=LoaderSetup(workers=2, prefetch_factor=2, pin_memory=False, persistent=True),
    cpu_count=32,
    omp_threads=4,
)
GPU: Final = replace(
    CPU,
    device_kind="cuda",
    device_name="NVIDIA H100 80GB HBM3",
    device_count=1,
    precision="bf16",
    batch_bytes=19_300_000,
)
_DEVICE_PHASES: Final[tuple[str, ...]] = ("h2d", "forward", "backward", "optimizer")
_LAUNCHING: Final = 0.3  # of a kernel's time, the host is busy launching it
_NOT_MARKED: Final = "the end of a rank's own backward work cannot be marked under this strategy"


class Fleet:
    """A job in the making; every matrix is ranks by steps, in milliseconds.

    Attributes:
        own: What a rank does itself, by in-step account; NaN was not measured.
        before: What lies before the step in its row, by between-step account.
        inside: What lies inside the step of between-step accounts.
        memory: Bytes by column of the steps table.
        samples: Work of each step.
        hidden_wait_ms: How long the host of a device waits for its batch while the device still works.
        logged: Values of each step by name, logged on rank 0.
        regions: Time of the user's regions, by rank. flops: what every rank knows of its work.
        pipeline: Stages and queues of rank 0.
        dropped: Steps without a row, by rank. ends: steps after which a rank died, by rank.
        gauges: What the samplers read; None for a run without samplers.
        random: The scenario's own numbers, the same each time.
    """

    def __init__(
        self,
        ranks: int = 1,
        steps: int = 300,
        *,
        seed: int = 0,
        step: Mapping[str, float] = STEP,
        noise: float = 0.03,
        setup: Setup = CPU,
        waiting: Waiting = "marked",
        collective_ms: float = 0.8,
        per_node: int | None = None,
        gauges: Gauges | None = Gauges(),  # noqa: B008 - frozen
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.ranks, self.steps = ranks, steps
        self.shape = (ranks, steps)
        self.setup = setup
        self.waiting, self.collective_ms = waiting, collective_ms
        self.per_node = per_node or ranks
        self.gauges = gauges
        self.own: dict[str, Floats] = {
            name: ms * (1.0 + noise * self.random.standard_normal(self.shape)).clip(0.5, 2.0)
            for name, ms in step.items()
        }
        self.before: dict[str, Floats] = {}
        self.inside: dict[str, Floats] = {}
        self.after_ms: dict[str, float] = {"shutdown": 20.0}
        self.spend(0, "startup", 400.0)
        self.flags: Ints = np.full(self.shape, COMPILED_KNOWN, dtype=np.int64)
        self.flags[:, 0] |= EPOCH_FIRST
        self.epochs = 1
        self.memory: dict[str, Floats] = {"rss_bytes": np.full(self.shape, 3.0 * GB)}
        if setup.device_kind != "cpu":
            self.memory["peak_allocated_bytes"] = np.full(self.shape, 40.0 * GB)
            self.memory["peak_reserved_bytes"] = np.full(self.shape, 44.0 * GB)
        self.samples: Ints = np.full(self.shape, 32, dtype=np.int64)
        self.gc_ms: Floats = np.zeros(self.shape)
        self.events: list[list[Event]] = [[] for _ in range(ranks)]
        self.logged: dict[str, Floats] = {}
        self.regions: list[list[Region]] = [[] for _ in range(ranks)]
        self.flops: FlopFacts | None = None
        self.pipeline: Pipeline | None = None
        self.hidden_wait_ms = 0.0
        self.dropped: dict[int, frozenset[int]] = {}
        self.ends: dict[int, int] = {}
        self.unmeasured: dict[str, str] = {}
        self.without_device_times: tuple[int, ...] = ()
        self.setups: dict[int, Setup] = {}

    def add(
        self, account: str, ms: float | Floats, ranks: Sequence[int] | slice = slice(None)
    ) -> None:
        """Make an account of some ranks longer, on every step or as a row of steps says."""
        self.own.setdefault(account, np.zeros(self.shape))[ranks] += ms

    def spend(self, at: int | slice | Ints, account: str, ms: float) -> None:
        """Put time of a between-step account before the steps at these positions, on all ranks."""
        self.before.setdefault(account, np.zeros(self.shape))[:, at] += ms

    def lose(self, account: str, ranks: Sequence[int] | slice = slice(None)) -> None:
        """Leave an account unmeasured on some ranks; the time goes to `other`."""
        self.own["other"][ranks] += np.nan_to_num(self.own[account][ranks])
        self.own[account][ranks] = np.nan

    def begin_epochs(
        self, every: int, boundary_ms: float = 0.0, first_wait_ms: float = 0.0
    ) -> None:
        """Begin an epoch each `every` steps: its first fetch waits longer, its iterator takes time."""
        firsts = np.arange(0, self.steps, every)
        self.flags[:, firsts] |= EPOCH_FIRST
        self.epochs = len(firsts)
        self.own["input_wait"][:, firsts] += first_wait_ms
        if boundary_ms:
            self.spend(firsts, "epoch_boundary", boundary_ms)

    def job(
        self,
        *,
        world_size: int | None = None,
        attempt: int = 0,
        start_ns: int = START_NS,
        status: RunStatus = "completed",
        silent: Sequence[int] = (),
    ) -> Job:
        """Give the job as its ranks record it; `silent` ranks left no record."""
        inside, device = self._timed()
        records = tuple(
            self._record(rank, inside, device, attempt, start_ns, status)
            for rank in range(self.ranks)
            if rank not in silent
        )
        nodes = -(-self.ranks // self.per_node)
        return Job(records, world_size or self.ranks, nodes, status)

    def _timed(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Give host times by account and device times by phase, the waiting included."""
        inside = {name: values.copy() for name, values in self.own.items()}
        if self.ranks > 1:
            self._wait(inside)
        if self.setup.device_kind == "cpu":
            return inside, {}
        device = {name: inside[name].copy() for name in _DEVICE_PHASES if name in inside}
        on_device = [r for r in range(self.ranks) if self._setup_of(r).device_kind != "cpu"]
        for name in ("forward", "backward", "optimizer"):
            launching = inside[name][on_device] * _LAUNCHING
            inside["other"][on_device] += np.nan_to_num(inside[name][on_device] - launching)
            inside[name][on_device] = launching
        inside["other"][on_device] -= self.hidden_wait_ms
        inside["input_wait"][on_device] += self.hidden_wait_ms
        return inside, device

    def _setup_of(self, rank: int) -> Setup:
        return self.setups.get(rank, self.setup)

    def _wait(self, inside: dict[str, Floats]) -> None:
        """Let every rank wait for the last one: all leave the collective together."""
        wait = waits(inside, (*self.before.values(), *self.inside.values())) + self.collective_ms
        if self.waiting == "marked":
            inside["gradient_sync"] = wait
            return
        self.unmeasured["gradient_sync"] = _NOT_MARKED
        in_forward = 0.5 if self.waiting == "in forward and backward" else 0.0
        inside["forward"] += in_forward * wait
        inside["backward"] += (1.0 - in_forward) * wait

    def _record(
        self,
        rank: int,
        inside: Mapping[str, Floats],
        device: Mapping[str, Floats],
        attempt: int,
        start_ns: int,
        status: RunStatus,
    ) -> RankRecord:
        setup = self._setup_of(rank)
        clocked = bool(device) and rank not in self.without_device_times
        until = slice(self.ends.get(rank, self.steps))

        def cut(matrices: Mapping[str, Floats]) -> dict[str, Floats]:
            return {name: values[rank, until] for name, values in matrices.items()}

        mine, before, between = cut(inside), cut(self.before), cut(self.inside)
        spent = sum(np.nansum(v) for v in (*mine.values(), *before.values(), *between.values()))
        length_s = float(spent + sum(self.after_ms.values())) / 1e3
        gauges, local = self.gauges, rank % self.per_node
        return RankRecord(
            rank=rank,
            attempt=attempt,
            node=rank // self.per_node,
            status="lost" if rank in self.ends else status,
            level="full" if clocked else "host",
            device_clock=setup.device_kind if clocked else None,
            setup=setup,
            unmeasured=dict(self.unmeasured),
            start_ns=start_ns,
            inside={name: v for name, v in mine.items() if not np.isnan(v).all()},
            device=cut(device) if clocked else {},
            before=before,
            inside_between=between,
            after_ms={} if rank in self.ends else dict(self.after_ms),
            flags=self.flags[rank, until],
            memory=cut(self.memory),
            samples=self.samples[rank, until],
            gc_ms=self.gc_ms[rank, until],
            dropped=self.dropped.get(rank, frozenset()),
            epochs=self.epochs,
            events=tuple(self.events[rank]),
            scalars=self._scalars() if rank == 0 else (),
            regions=tuple(self.regions[rank]),
            flops=self.flops,
            pipeline=self.pipeline if rank == 0 else None,
            system=system_of(gauges, start_ns, length_s) if gauges and local == 0 else (),
            process=process_of(gauges, rank, start_ns, length_s) if gauges else (),
            devices=devices_of(gauges, rank, local, start_ns, length_s)
            if gauges and setup.device_kind != "cpu"
            else (),
        )

    def _scalars(self) -> tuple[Scalar, ...]:
        return tuple(
            Scalar(index + 1, name, float(value))
            for name, values in self.logged.items()
            for index, value in enumerate(values)
        )
