"""Runs whose process is the story: its memory, its threads, its share of the cores."""

from dataclasses import replace
from typing import Final

from tests.scenarios.catalogue.metrics import CLEAN_ONE, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet
from tests.scenarios.readings import GB, Gauges
from tests.scenarios.record import Expected, Job, Scenario


def _large_process() -> Job:
    gauges = Gauges(
        system={"ram_used_bytes": 222.0 * GB},
        process={"rss_bytes": 185.0 * GB, "workers_rss_bytes": 30.0 * GB},
    )
    fleet = Fleet(1, 300, seed=90, gauges=gauges)
    fleet.memory["rss_bytes"][:] = 185.0 * GB
    return fleet.job()


_ALL_CORES: Final = Gauges(
    system={"cpu_cores": 15.6, "cpu_count": 16, "load_1min": 16.0},
    process={"allowed_cores": 16.0, "cpu_cores": 13.0, "workers_cpu_cores": 2.5},
)


def _busy_cpu() -> Job:
    setup = replace(CPU, cpu_count=16, omp_threads=13)
    return Fleet(1, 300, seed=91, setup=setup, gauges=_ALL_CORES).job()


def _busy_cpu_beside_gpu() -> Job:
    setup = replace(GPU, cpu_count=16)
    return Fleet(1, 300, seed=93, step={**STEP, "h2d": 2.0}, setup=setup, gauges=_ALL_CORES).job()


def _oversubscribed_cpu() -> Job:
    """Sixteen OMP threads share two cores: the training thread waits for a core half of the time."""
    gauges = Gauges(
        system={"cpu_cores": 2.0, "cpu_count": 2, "load_1min": 18.0},
        process={
            "allowed_cores": 2.0,
            "cpu_cores": 1.7,
            "workers_cpu_cores": 0.28,
            "threads": 40,
            "run_queue_ns": 0.48,
            "on_cpu_ns": 0.5,
            "involuntary_switches": 1_800,
        },
    )
    setup = replace(CPU, cpu_count=2, omp_threads=16)
    return Fleet(1, 300, seed=92, noise=0.10, setup=setup, gauges=gauges).job()


def _found(kind: str, **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: None},
        window=(1, 300, 300),
        null=ONE_CPU,
        families={"step_time": "clean", "between_steps": "clean", "memory": "clean"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "large_process",
        "a process that holds most of the memory it may use is named",
        _large_process,
        _found("HIGH_RSS", families={**CLEAN_ONE, "process": "finding"}),
        shows=("HIGH_RSS",),
    ),
    Scenario(
        "busy_cpu",
        "full cores are what one wants of training on CPUs: observed, and not called oversubscribed",
        _busy_cpu,
        Expected(
            "COMPUTE_BOUND",
            "balanced",
            "info",
            noted=("HIGH_CPU", "COMPUTE_BOUND"),
            window=(1, 300, 300),
            null=ONE_CPU,
            families=CLEAN_ONE,
        ),
    ),
    Scenario(
        "busy_cpu_beside_gpu",
        "beside a device full cores are a warning: the next worker takes its core from the loop",
        _busy_cpu_beside_gpu,
        _found("HIGH_CPU", clock="device", null=ONE_GPU),
        shows=("HIGH_CPU",),
    ),
    Scenario(
        "oversubscribed_cpu",
        "too many threads for the cores are named, with the seconds that steps waited for a core",
        _oversubscribed_cpu,
        _found("CPU_OVERSUBSCRIBED"),
        shows=("CPU_OVERSUBSCRIBED",),
    ),
)
