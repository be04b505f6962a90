"""Jobs of an unusual make: restarts, mixed clocks, ranks without a device, hardly any steps."""

from dataclasses import replace
from typing import Final

from tests.scenarios.catalogue.metrics import CLEAN, CPUS, GPUS, ONE_CPU
from tests.scenarios.fleet import CPU, GPU, START_NS, STEP, Fleet
from tests.scenarios.record import Expected, Job, Scenario
from traintrace_analysis.window import METRICS

_GPU_STEP = {**STEP, "h2d": 2.0}
_RESTART_NS = START_NS + 60_000_000_000


def _restart() -> Job:
    """Attempt 0 dies after 50 slow steps; attempt 1 is fast: the slow ones are not its own."""
    setup = replace(CPU, strategy="ddp")
    first = Fleet(2, 50, seed=100, step={**STEP, "input_wait": 80.0}, setup=setup)
    again = Fleet(2, 120, seed=101, setup=setup)
    before = first.job(status="lost")
    after = again.job(attempt=1, start_ns=_RESTART_NS)
    return Job((*before.ranks, *after.ranks), 2)


def _mixed_clocks() -> Job:
    fleet = Fleet(2, 200, seed=102, step=_GPU_STEP, setup=replace(GPU, strategy="ddp"))
    fleet.without_device_times = (1,)
    return fleet.job()


def _rank_without_gpu() -> Job:
    """Rank 1 ran on its CPU by mistake: five times slower, and everybody waits for it."""
    fleet = Fleet(4, 200, seed=103, step=_GPU_STEP, setup=replace(GPU, strategy="ddp"))
    fleet.without_device_times = (1,)
    fleet.setups = {1: replace(CPU, strategy="ddp")}
    for name in ("forward", "backward"):
        fleet.own[name][1] *= 5.0
    fleet.own["h2d"][1] = 0.0
    return fleet.job()


def _hardly_any_steps() -> Job:
    return Fleet(1, 6, seed=104).job()


def _no_record() -> Job:
    return Job((), 2, status="failed")


SCENARIOS: Final = (
    Scenario(
        "restart",
        "the latest attempt is judged alone, and both are listed",
        _restart,
        Expected(
            "COMPUTE_BOUND",
            "balanced",
            "info",
            window=(1, 120, 120),
            ranks=2,
            null=CPUS,
            families=CLEAN,
        ),
    ),
    Scenario(
        "mixed_clocks",
        "a rank without device times puts the whole window on the host clock, never a mixture; there "
        "the host's waiting for its device cannot be told from work of its own",
        _mixed_clocks,
        Expected(
            "CANNOT_TELL",
            "cannot_tell",
            "info",
            clock="host",
            window=(1, 200, 200),
            ranks=2,
            null=GPUS,
        ),
    ),
    Scenario(
        "rank_without_gpu",
        "the one rank that runs without a device is the straggler; as clocks differ no phase is named",
        _rank_without_gpu,
        Expected(
            "STRAGGLER",
            "finding",
            named={"STRAGGLER": (1,)},
            clock="host",
            window=(1, 200, 200),
            ranks=4,
            null=GPUS,
        ),
    ),
    Scenario(
        "hardly_any_steps",
        "six steps are too few to judge, and the report says so",
        _hardly_any_steps,
        Expected(
            "TOO_FEW_STEPS",
            "insufficient_data",
            "info",
            window=(1, 6, 6),
            null=ONE_CPU,
            families={"step_time": "insufficient", "ranks": "not_measured"},
        ),
        shows=("TOO_FEW_STEPS",),
    ),
    Scenario(
        "no_record",
        "a job that left no rank file at all is incomplete data, with every rank expected",
        _no_record,
        Expected(
            "INCOMPLETE_DATA",
            "insufficient_data",
            "info",
            window=(None, None, 0),
            ranks=2,
            seen=(),
            null=frozenset(METRICS),
        ),
    ),
)
