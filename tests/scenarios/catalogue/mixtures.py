"""Several things at once, and things that look like something else: each second has one name at most."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CLEAN, CLEAN_ONE, CPUS, GPUS, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet
from tests.scenarios.readings import GB
from tests.scenarios.record import Expected, Job, Scenario

_DDP = replace(CPU, strategy="ddp")


def _input_and_straggler() -> Job:
    fleet = Fleet(4, 300, seed=110, step={**STEP, "input_wait": 40.0}, setup=_DDP)
    fleet.add("backward", 30.0, [2])
    return fleet.job()


def _evaluation_inside_steps() -> Job:
    """A callback evaluates inside the step, as frameworks do at the end of every 50th batch."""
    fleet = Fleet(1, 300, seed=111)
    fleet.inside["evaluation"] = np.zeros(fleet.shape)
    fleet.inside["evaluation"][:, 49::50] = 2_000.0
    return fleet.job()


def _longer_batches() -> Job:
    """The curriculum makes batches longer, and steps with them: growth that is meant."""
    fleet = Fleet(1, 600, seed=112)
    growth = np.linspace(1.0, 1.6, 600)
    fleet.samples = np.rint(64.0 * growth)[None, :].astype(np.int64)
    for name in ("forward", "backward"):
        fleet.own[name] *= fleet.samples / 64.0
    return fleet.job()


def _sawtooth_memory() -> Job:
    """A cache that is filled and cleared; it grows most of the time and is no leak."""
    fleet = Fleet(1, 600, seed=113)
    fleet.memory["rss_bytes"] = (3.0 + np.tile(np.linspace(0.0, 2.0, 100), 6))[None, :] * GB
    return fleet.job()


def _small_collections() -> Job:
    fleet = Fleet(1, 300, seed=114)
    fleet.gc_ms[:] = 0.8
    return fleet.job()


def _short_compilation() -> Job:
    fleet = Fleet(1, 300, seed=115)
    fleet.own["forward"][:, :3] += 300.0
    return fleet.job()


def _spikes_on_all_ranks() -> Job:
    fleet = Fleet(8, 400, seed=116, setup=_DDP)
    fleet.own["forward"][fleet.random.random(fleet.shape) < 0.003] += 40.0
    return fleet.job()


def _hidden_fsdp_straggler() -> Job:
    fleet = Fleet(
        4, 300, seed=117, setup=replace(CPU, strategy="fsdp"), waiting="in forward and backward"
    )
    fleet.add("forward", 40.0, [1])
    return fleet.job()


def _rank_that_died() -> Job:
    step = {name: 10.0 * ms for name, ms in STEP.items()}
    fleet = Fleet(4, 300, seed=118, step=step, setup=_DDP)
    fleet.ends = {2: 100}
    return fleet.job(status="interrupted")


def _slow_gpu_of_four() -> Job:
    """One device is 30 % slower in everything that it computes; device times tell, on one clock."""
    fleet = Fleet(4, 300, seed=119, step={**STEP, "h2d": 2.0}, setup=replace(GPU, strategy="ddp"))
    for name in ("forward", "backward", "optimizer"):
        fleet.own[name][3] *= 1.3
    return fleet.job()


def _hidden_input_wait() -> Job:
    fleet = Fleet(1, 300, seed=120, step={**STEP, "h2d": 2.0}, setup=GPU)
    fleet.hidden_wait_ms = 45.0
    return fleet.job()


_COMPUTE = Expected(
    "COMPUTE_BOUND",
    "balanced",
    "info",
    window=(1, 300, 300),
    null=ONE_CPU,
    families=CLEAN_ONE,
)

SCENARIOS: Final = (
    Scenario(
        "input_and_straggler",
        "what all ranks wait for data and what one rank adds in backward are two findings",
        _input_and_straggler,
        Expected(
            "INPUT_BOUND",
            "finding",
            "critical",
            named={"INPUT_BOUND": None, "BACKWARD_STRAGGLER": (2,)},
            window=(1, 300, 300),
            ranks=4,
            null=CPUS,
        ),
    ),
    Scenario(
        "evaluation_inside_steps",
        "evaluation inside steps is evaluation, and its steps are neither slow nor jitter",
        _evaluation_inside_steps,
        replace(
            _COMPUTE,
            verdict="EVALUATION_COST",
            outcome="finding",
            severity=None,
            named={"EVALUATION_COST": (0,)},
            families={"step_time": "clean"},
        ),
    ),
    Scenario(
        "longer_batches",
        "steps that grow with their batches are no drift to remove",
        _longer_batches,
        replace(_COMPUTE, window=(1, 600, 600)),
    ),
    Scenario(
        "sawtooth_memory",
        "memory that is given back again and again is no leak",
        _sawtooth_memory,
        replace(_COMPUTE, window=(1, 600, 600)),
    ),
    Scenario(
        "small_collections",
        "collections of under a millisecond a step are no finding",
        _small_collections,
        _COMPUTE,
    ),
    Scenario(
        "short_compilation",
        "a second of warm-up at the start is reported apart and is no finding",
        _short_compilation,
        _COMPUTE,
    ),
    Scenario(
        "spikes_on_all_ranks",
        "rare spikes that hit any rank blame none",
        _spikes_on_all_ranks,
        replace(_COMPUTE, window=(1, 400, 400), ranks=8, null=CPUS, families=CLEAN),
    ),
    Scenario(
        "hidden_fsdp_straggler",
        "under FSDP a slow forward hides in everybody's forward: nobody is blamed, and compute is not "
        "said to fill the step",
        _hidden_fsdp_straggler,
        Expected(
            "CANNOT_TELL",
            "cannot_tell",
            "info",
            window=(1, 300, 300),
            ranks=4,
            null=CPUS | {"gradient_sync"},
        ),
    ),
    Scenario(
        "rank_that_died",
        "a rank that stopped in the middle bounds the window, is named, and is not called slow",
        _rank_that_died,
        Expected(
            "SILENT_RANK",
            "finding",
            named={"SILENT_RANK": (2,)},
            window=(1, 100, 100),
            ranks=4,
            null=CPUS,
        ),
    ),
    Scenario(
        "slow_gpu_of_four",
        "one slower device among equal ones is named on the device clock",
        _slow_gpu_of_four,
        Expected(
            "COMPUTE_STRAGGLER",
            "finding",
            named={"COMPUTE_STRAGGLER": (3,)},
            clock="device",
            window=(1, 300, 300),
            ranks=4,
            null=GPUS,
        ),
    ),
    Scenario(
        "hidden_input_wait",
        "a wait for data during which the device works delays nobody, and makes a residual on the "
        "device clock negative: it is shown so, and is no finding",
        _hidden_input_wait,
        replace(_COMPUTE, clock="device", null=ONE_GPU, negative=("residual",)),
    ),
)
