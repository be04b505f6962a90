"""The eleven contract scenarios that traintrace grew from; in the first six all steps are alike."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CPUS, GPUS, NO_SAMPLERS, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet
from tests.scenarios.noise import correlated
from tests.scenarios.record import Expected, Job, Scenario

_GPU_STEP = {**STEP, "h2d": 2.0}
_STEPS = 120


def _complete_gpu() -> Job:
    return Fleet(
        4, _STEPS, step=_GPU_STEP, noise=0.0, setup=replace(GPU, strategy="ddp"), gauges=None
    ).job()


def _sparse_missing_forward() -> Job:
    fleet = Fleet(2, _STEPS, noise=0.0, setup=replace(CPU, strategy="ddp"), gauges=None)
    fleet.lose("forward", [1])
    return fleet.job()


def _measured_zero_forward() -> Job:
    return Fleet(2, _STEPS, step={**STEP, "forward": 0.0}, noise=0.0, gauges=None).job()


def _single_rank_cpu() -> Job:
    return Fleet(1, _STEPS, noise=0.0, gauges=None).job()


def _ddp_rank_straggler() -> Job:
    fleet = Fleet(4, _STEPS, noise=0.0, setup=replace(CPU, strategy="ddp"), gauges=None)
    fleet.add("backward", 60.0, [2])
    return fleet.job()


def _fsdp_rank_straggler() -> Job:
    fleet = Fleet(
        4,
        _STEPS,
        noise=0.0,
        setup=replace(CPU, strategy="fsdp"),
        waiting="in forward and backward",
        gauges=None,
    )
    fleet.add("input_wait", 60.0, [1])
    return fleet.job()


def _jittered_ddp() -> Job:
    fleet = Fleet(4, 200, seed=7, noise=0.08, setup=replace(CPU, strategy="ddp"), gauges=None)
    fleet.add("backward", 18.0 * (1.0 + correlated(fleet.random, (1, 200), 0.5, 0.2)[0]), [1])
    return fleet.job()


def _rank_missing_steps() -> Job:
    fleet = Fleet(2, _STEPS, seed=8, setup=replace(CPU, strategy="ddp"), gauges=None)
    fleet.dropped[1] = frozenset(range(60, 64))
    return fleet.job()


def _intermittent_metrics() -> Job:
    fleet = Fleet(
        3, _STEPS, seed=9, step=_GPU_STEP, setup=replace(CPU, strategy="ddp"), gauges=None
    )
    every_third = np.arange(_STEPS) % 3 != 0
    for name, rarely in (("h2d", every_third), ("optimizer", np.arange(_STEPS) % 2 == 0)):
        fleet.own[name][:, rarely] = np.nan
    for rank, lost in ((1, slice(70, 71)), (2, slice(40, 60))):
        fleet.own["other"][rank, lost] += fleet.own["forward"][rank, lost]
        fleet.own["forward"][rank, lost] = np.nan
    return fleet.job()


def _h2d_bound_gpu() -> Job:
    return Fleet(1, _STEPS, seed=10, step={**STEP, "h2d": 45.0}, setup=GPU, gauges=None).job()


def _forward_missing_everywhere() -> Job:
    fleet = Fleet(2, _STEPS, seed=11, setup=replace(CPU, strategy="ddp"), gauges=None)
    fleet.lose("forward")
    fleet.unmeasured["forward"] = "the model runs inside a compiled function"
    return fleet.job()


_WHOLE = (1, _STEPS, _STEPS)
_COMPUTE = Expected(
    "COMPUTE_BOUND",
    "balanced",
    "info",
    noted=("COMPUTE_BOUND",),
    window=_WHOLE,
    families=NO_SAMPLERS,
)

SCENARIOS: Final = (
    Scenario(
        "complete_gpu",
        "a complete window of several ranks is on the device clock and keeps its host times",
        _complete_gpu,
        replace(
            _COMPUTE,
            clock="device",
            ranks=4,
            null=GPUS,
            zero=("batch_prep",),
            families={"step_time": "clean", "ranks": "clean", **NO_SAMPLERS},
        ),
    ),
    Scenario(
        "sparse_missing_forward",
        "a rank without a required signal has no compute and no residual; the others keep theirs",
        _sparse_missing_forward,
        replace(
            _COMPUTE,
            ranks=2,
            null=CPUS,
            null_on={"forward": (1,), "compute": (1,), "residual": (1,)},
        ),
    ),
    Scenario(
        "measured_zero_forward",
        "a forward of exactly zero is a measurement: it is 0.0, it takes part in compute and residual, "
        "and the backward beside it is judged",
        _measured_zero_forward,
        Expected(
            "BACKWARD_HEAVY",
            "finding",
            named={"BACKWARD_HEAVY": (0, 1)},
            noted=("COMPUTE_BOUND",),
            window=_WHOLE,
            ranks=2,
            null=CPUS,
            zero=("forward", "batch_prep"),
            families=NO_SAMPLERS,
        ),
    ),
    Scenario(
        "single_rank_cpu",
        "one rank has no skew, nobody to wait for, and no straggler",
        _single_rank_cpu,
        replace(
            _COMPUTE,
            null=ONE_CPU,
            families={"step_time": "clean", "ranks": "not_measured", **NO_SAMPLERS},
        ),
    ),
    Scenario(
        "ddp_rank_straggler",
        "a rank slow in its own backward is named, critical, though all ranks take equally long",
        _ddp_rank_straggler,
        Expected(
            "BACKWARD_STRAGGLER",
            "finding",
            "critical",
            named={"BACKWARD_STRAGGLER": (2,)},
            window=_WHOLE,
            ranks=4,
            null=CPUS,
            families=NO_SAMPLERS,
        ),
    ),
    Scenario(
        "fsdp_rank_straggler",
        "under FSDP the rank that waits least is named, never above a warning",
        _fsdp_rank_straggler,
        Expected(
            "INPUT_STRAGGLER",
            "finding",
            "warning",
            named={"INPUT_STRAGGLER": (1,)},
            window=_WHOLE,
            ranks=4,
            null=CPUS | {"gradient_sync"},
            families=NO_SAMPLERS,
        ),
    ),
    Scenario(
        "jittered_ddp",
        "noise in every metric does not hide a rank that is a sixth slower in backward",
        _jittered_ddp,
        Expected(
            "BACKWARD_STRAGGLER",
            "finding",
            named={"BACKWARD_STRAGGLER": (1,)},
            window=(1, 200, 200),
            ranks=4,
            null=CPUS,
            families=NO_SAMPLERS,
        ),
    ),
    Scenario(
        "rank_missing_steps",
        "steps that one rank has no rows of are in nobody's window",
        _rank_missing_steps,
        replace(_COMPUTE, window=(1, _STEPS, _STEPS - 4), ranks=2, null=CPUS),
    ),
    Scenario(
        "intermittent_metrics",
        "what happens on some steps is zero on the others; a required metric survives one bad step, "
        "but not one in six",
        _intermittent_metrics,
        replace(
            _COMPUTE,
            ranks=3,
            null=CPUS - {"h2d"},
            null_on={"forward": (2,), "compute": (2,), "residual": (2,)},
        ),
    ),
    Scenario(
        "h2d_bound_gpu",
        "transfers are found on the device clock",
        _h2d_bound_gpu,
        Expected(
            "H2D_BOUND",
            "finding",
            "critical",
            named={"H2D_BOUND": (0,)},
            clock="device",
            window=_WHOLE,
            null=ONE_GPU,
            families=NO_SAMPLERS,
        ),
        shows=("H2D_BOUND",),
    ),
    Scenario(
        "forward_missing_everywhere",
        "without a required phase on any rank nothing inside the step is judged",
        _forward_missing_everywhere,
        Expected(
            "INCOMPLETE_DATA",
            "insufficient_data",
            "info",
            window=_WHOLE,
            ranks=2,
            null=CPUS | {"forward", "compute", "residual"},
            families={"step_time": "insufficient", **NO_SAMPLERS},
        ),
        shows=("INCOMPLETE_DATA",),
    ),
)
