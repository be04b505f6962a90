"""Runs whose memory is the story."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CLEAN, CLEAN_ONE, GPUS, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import GPU, START_NS, STEP, Fleet
from tests.scenarios.readings import GB, Gauge, Gauges
from tests.scenarios.record import Expected, Job, Scenario
from traintrace.facts import Event

_GPU_STEP = {**STEP, "h2d": 2.0}


def _memory_leak() -> Job:
    grown = {"rss_bytes": lambda done: (3.0 + 6.0 * done) * GB}
    fleet = Fleet(1, 600, seed=70, gauges=Gauges(process=grown))
    fleet.memory["rss_bytes"] = np.linspace(3.0, 9.0, 600)[None, :] * GB
    return fleet.job()


def _gpu(
    seed: int, allocated: float, reserved: float, device: dict[str, Gauge], ranks: int = 1
) -> Fleet:
    fleet = Fleet(
        ranks,
        300,
        seed=seed,
        step=_GPU_STEP,
        setup=replace(GPU, strategy="ddp" if ranks > 1 else None),
        gauges=Gauges(device=device),
    )
    fleet.memory["peak_allocated_bytes"][:] = allocated * GB
    fleet.memory["peak_reserved_bytes"][:] = reserved * GB
    return fleet


def _memory_pressure() -> Job:
    return _gpu(71, 74.0, 77.0, {"memory_used_bytes": 79.0 * GB}).job()


def _memory_imbalance() -> Job:
    fleet = _gpu(72, 30.0, 33.0, {"memory_used_bytes": 36.0 * GB}, ranks=4)
    fleet.memory["peak_allocated_bytes"][0] = 58.0 * GB
    fleet.memory["peak_reserved_bytes"][0] = 61.0 * GB
    gauges = Gauges(
        device={"memory_used_bytes": 36.0 * GB}, of_rank={0: {"memory_used_bytes": 64.0 * GB}}
    )
    fleet.gauges = gauges
    return fleet.job()


def _reserved_overhang() -> Job:
    return _gpu(73, 20.0, 48.0, {"memory_used_bytes": 51.0 * GB}).job()


def _fragmentation() -> Job:
    """Reserved grows to the whole device though what is allocated does not; retries follow."""
    fleet = _gpu(74, 44.0, 72.0, {"memory_used_bytes": 75.0 * GB})
    fleet.memory["peak_reserved_bytes"][:] = np.linspace(50.0, 72.0, 300)[None, :] * GB
    return fleet.job()


def _allocator_retries() -> Job:
    fleet = _gpu(75, 66.0, 70.0, {"memory_used_bytes": 72.0 * GB})
    fleet.events[0] = [
        Event(START_NS + (index + 4) * 1_000_000_000, "allocator_retry", 10 * index + 12, "3 more")
        for index in range(25)
    ]
    return fleet.job()


def _found(kind: str, on: tuple[int, ...] = (0,), **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: on},
        clock="device",
        window=(1, 300, 300),
        null=ONE_GPU,
        families={name: state for name, state in CLEAN_ONE.items() if name != "memory"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "memory_leak",
        "resident memory that grows by the step is a leak",
        _memory_leak,
        _found("MEMORY_CREEP", clock="host", window=(1, 600, 600), null=ONE_CPU),
        shows=("MEMORY_CREEP",),
    ),
    Scenario(
        "memory_pressure",
        "a device that is nearly full is named before it fails",
        _memory_pressure,
        _found("MEMORY_PRESSURE"),
        shows=("MEMORY_PRESSURE",),
    ),
    Scenario(
        "memory_imbalance",
        "one rank that holds twice the memory of the others is named",
        _memory_imbalance,
        _found(
            "MEMORY_IMBALANCE",
            (0,),
            ranks=4,
            null=GPUS,
            families={name: state for name, state in CLEAN.items() if name != "memory"},
        ),
        shows=("MEMORY_IMBALANCE",),
    ),
    Scenario(
        "reserved_overhang",
        "memory that the allocator keeps and never uses is named",
        _reserved_overhang,
        _found("RESERVED_OVERHANG"),
        shows=("RESERVED_OVERHANG",),
    ),
    Scenario(
        "fragmentation",
        "reserved memory that grows while allocated memory does not is fragmentation",
        _fragmentation,
        _found("FRAGMENTATION"),
        shows=("FRAGMENTATION",),
    ),
    Scenario(
        "allocator_retries",
        "an allocator that has to give memory back and try again is named",
        _allocator_retries,
        _found("ALLOCATOR_RETRIES"),
        shows=("ALLOCATOR_RETRIES",),
    ),
)
