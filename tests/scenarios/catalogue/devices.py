"""Runs whose machine or device is the story."""

from dataclasses import replace
from typing import Final

from tests.scenarios.catalogue.metrics import CLEAN_ONE, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import GPU, STEP, Fleet
from tests.scenarios.readings import GB, Gauge, Gauges
from tests.scenarios.record import Expected, Job, Scenario

_GPU_STEP = {**STEP, "h2d": 2.0}


def _device(seed: int, device: dict[str, Gauge]) -> Job:
    return Fleet(1, 300, seed=seed, step=_GPU_STEP, setup=GPU, gauges=Gauges(device=device)).job()


def _idle_gpu() -> Job:
    """The host launches too slowly; on the device clock what is left of the step is no finding."""
    step = {**_GPU_STEP, "forward": 9.0, "backward": 18.0, "optimizer": 3.0, "other": 60.0}
    gauges = Gauges(device={"utilisation": 0.3, "power_w": 210.0})
    return Fleet(1, 300, seed=80, step=step, setup=GPU, gauges=gauges).job()


def _hot_gpu() -> Job:
    return _device(81, {"temperature_c": 88.6})


def _throttled_gpu() -> Job:
    """From a third of the steps on, the clock is held back and everything on the device is slower."""
    fleet = Fleet(1, 300, seed=82, step=_GPU_STEP, setup=GPU)
    for name in ("forward", "backward", "optimizer"):
        fleet.own[name][:, 100:] *= 1.6
    # The slow part begins when a third of the steps, and a quarter of the time, is over.
    begins = 10.0 / (10.0 + 20.0 * 1.57)
    fleet.gauges = Gauges(
        device={"sm_clock_mhz": lambda done: 1_950.0 if done < begins else 1_200.0},
        throttle_reasons=lambda done: "" if done < begins else "hw_power_brake_slowdown",
    )
    return fleet.job()


def _gpu_at_power_limit() -> Job:
    return _device(83, {"power_w": 690.0})


def _full_ram() -> Job:
    return Fleet(1, 300, seed=84, gauges=Gauges(system={"ram_used_bytes": 248.0 * GB})).job()


def _found(kind: str, **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: None},
        clock="device",
        window=(1, 300, 300),
        null=ONE_GPU,
        families={name: state for name, state in CLEAN_ONE.items() if name != "system"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "idle_gpu",
        "a device that idles while the host launches is named, though no phase on its clock is",
        _idle_gpu,
        _found("LOW_GPU_UTILIZATION"),
        shows=("LOW_GPU_UTILIZATION",),
    ),
    Scenario(
        "hot_gpu",
        "a device close to its slowdown temperature is named before it slows down",
        _hot_gpu,
        _found("GPU_TEMPERATURE"),
        shows=("GPU_TEMPERATURE",),
    ),
    Scenario(
        "throttled_gpu",
        "steps that are slower while the clock is held back are billed to that, and not to drift",
        _throttled_gpu,
        _found("GPU_THROTTLED"),
        shows=("GPU_THROTTLED",),
    ),
    Scenario(
        "gpu_at_power_limit",
        "a device at its power limit is at work: that is observed and never a warning",
        _gpu_at_power_limit,
        Expected(
            "COMPUTE_BOUND",
            "balanced",
            "info",
            noted=("HIGH_GPU_POWER", "COMPUTE_BOUND"),
            clock="device",
            window=(1, 300, 300),
            null=ONE_GPU,
            families=CLEAN_ONE,
        ),
        shows=("HIGH_GPU_POWER",),
    ),
    Scenario(
        "full_ram",
        "a node that runs out of memory is named",
        _full_ram,
        _found("HIGH_RAM", clock="host", null=ONE_CPU),
        shows=("HIGH_RAM",),
    ),
)
