"""Runs with nothing wrong, however noisy: nothing may be named."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import (
    CLEAN,
    CLEAN_ONE,
    CPUS,
    ONE_CPU,
    ONE_GPU,
)
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet
from tests.scenarios.noise import correlated
from tests.scenarios.readings import GB
from tests.scenarios.record import Expected, Job, Scenario


def _long_noise() -> Job:
    fleet = Fleet(1, 10_000, seed=20, noise=0.05)
    stretch = np.exp(correlated(fleet.random, fleet.shape, 0.7, 0.1))
    stretch[fleet.random.random(fleet.shape) < 0.01] *= 2.5
    for values in fleet.own.values():
        values *= stretch
    return fleet.job()


def _noisy_ranks() -> Job:
    fleet = Fleet(8, 400, seed=21, noise=0.04, setup=replace(CPU, strategy="ddp"), per_node=4)
    for name in ("forward", "backward"):
        fleet.own[name] *= np.exp(correlated(fleet.random, fleet.shape, 0.5, 0.04))
    return fleet.job()


def _healthy_gpu() -> Job:
    fleet = Fleet(1, 300, seed=22, step={**STEP, "h2d": 2.0}, setup=GPU)
    return fleet.job()


def _memory_plateau() -> Job:
    fleet = Fleet(1, 600, seed=23)
    growth = np.minimum(1.0, np.arange(600) / 120.0)
    fleet.memory["rss_bytes"] = (3.0 + 3.0 * growth[None, :]) * GB
    return fleet.job()


def _several_epochs() -> Job:
    fleet = Fleet(1, 400, seed=24)
    fleet.begin_epochs(every=100, boundary_ms=20.0, first_wait_ms=30.0)
    fleet.spend(slice(99, None, 100), "evaluation", 150.0)
    return fleet.job()


def _evenly_spread() -> Job:
    step = {
        **STEP,
        "input_wait": 9.0,
        "h2d": 9.0,
        "callbacks": 6.0,
        "forward": 22.0,
        "backward": 40.0,
    }
    return Fleet(
        2, 300, seed=25, step=step, setup=replace(CPU, strategy="ddp"), collective_ms=8.0
    ).job()


_COMPUTE = Expected(
    "COMPUTE_BOUND",
    "balanced",
    "info",
    noted=("COMPUTE_BOUND",),
    null=ONE_CPU,
    zero=("batch_prep",),
    families=CLEAN_ONE,
)

SCENARIOS: Final = (
    Scenario(
        "noise_of_ten_thousand_steps",
        "AR(0.7) noise with 1 % spikes over 10,000 steps names nothing",
        _long_noise,
        replace(_COMPUTE, window=(1, 10_000, 10_000)),
        shows=("COMPUTE_BOUND",),
    ),
    Scenario(
        "noisy_ranks",
        "of eight noisy ranks one is always the slowest, and none is blamed",
        _noisy_ranks,
        replace(_COMPUTE, window=(1, 400, 400), ranks=8, null=CPUS, families=CLEAN),
    ),
    Scenario(
        "healthy_gpu",
        "a healthy device run with all samplers is clean in every family",
        _healthy_gpu,
        replace(_COMPUTE, window=(1, 300, 300), clock="device", null=ONE_GPU),
    ),
    Scenario(
        "memory_plateau",
        "memory that grows at first and then stays is no leak",
        _memory_plateau,
        replace(_COMPUTE, window=(1, 600, 600)),
    ),
    Scenario(
        "several_epochs",
        "short pauses between epochs and short evaluations are no finding",
        _several_epochs,
        replace(_COMPUTE, window=(1, 400, 400)),
    ),
    Scenario(
        "evenly_spread",
        "where every part stays under its limit and none dominates, no cause stands out",
        _evenly_spread,
        Expected(
            "BALANCED",
            "balanced",
            "info",
            window=(1, 300, 300),
            ranks=2,
            null=CPUS - {"h2d", "callbacks"},
            families=CLEAN,
        ),
        shows=("BALANCED",),
    ),
)
