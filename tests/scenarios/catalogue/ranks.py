"""Jobs in which ranks differ."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CLEAN, CPUS, GPUS
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet, Waiting
from tests.scenarios.record import Expected, Job, Scenario

_DDP = replace(CPU, strategy="ddp")


def _fleet(seed: int, ranks: int = 4, waiting: Waiting = "marked", per_node: int = 8) -> Fleet:
    return Fleet(ranks, 300, seed=seed, setup=_DDP, waiting=waiting, per_node=min(ranks, per_node))


def _input_straggler() -> Job:
    fleet = _fleet(50)
    fleet.add("input_wait", 30.0, [3])
    return fleet.job()


def _h2d_straggler() -> Job:
    fleet = Fleet(4, 300, seed=51, step={**STEP, "h2d": 2.0}, setup=replace(GPU, strategy="ddp"))
    fleet.add("h2d", 25.0, [3])
    return fleet.job()


def _compute_straggler() -> Job:
    fleet = _fleet(52)
    fleet.add("forward", 25.0, [1])
    return fleet.job()


def _backward_straggler() -> Job:
    fleet = _fleet(53)
    fleet.add("backward", 25.0, [2])
    return fleet.job()


def _backward_straggler_unmarked() -> Job:
    fleet = _fleet(54, waiting="in backward")
    fleet.add("backward", 40.0, [2])
    return fleet.job()


def _straggler_outside_phases() -> Job:
    fleet = _fleet(55)
    fleet.add("callbacks", 0.5)
    fleet.add("callbacks", 30.0, [1])
    return fleet.job()


def _rotating_straggler() -> Job:
    fleet = _fleet(56)
    slow = fleet.random.integers(0, 4, 300)
    fleet.own["input_wait"][slow, np.arange(300)] += 35.0
    return fleet.job()


def _load_imbalance() -> Job:
    """Batches of very different sizes: the rank with the most samples is the last one, any rank."""
    fleet = _fleet(57)
    share = fleet.random.lognormal(0.0, 0.35, fleet.shape)
    fleet.samples = np.maximum(1, np.rint(32.0 * share)).astype(np.int64)
    for name in ("forward", "backward"):
        fleet.own[name] *= fleet.samples / 32.0
    return fleet.job()


def _silent_rank() -> Job:
    return _fleet(58).job(silent=[2])


def _one_node_of_two_slow() -> Job:
    fleet = _fleet(59, ranks=8, per_node=4)
    for name in ("forward", "backward"):
        fleet.own[name][4:] *= 1.3
    return fleet.job()


def _two_of_eight_slow() -> Job:
    fleet = _fleet(60, ranks=8)
    fleet.add("forward", 25.0, [2, 5])
    return fleet.job()


def _slow_link() -> Job:
    return Fleet(4, 300, seed=61, setup=_DDP, collective_ms=30.0).job()


def _found(kind: str, ranks: tuple[int, ...] | None, of: int = 4, **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: ranks},
        window=(1, 300, 300),
        ranks=of,
        null=CPUS,
        families={name: state for name, state in CLEAN.items() if name != "ranks"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "input_straggler",
        "the rank that waits for its data is named, not the ranks that wait for it",
        _input_straggler,
        _found("INPUT_STRAGGLER", (3,)),
        shows=("INPUT_STRAGGLER",),
    ),
    Scenario(
        "h2d_straggler",
        "a rank with slow transfers is named on the device clock",
        _h2d_straggler,
        _found("H2D_STRAGGLER", (3,), clock="device", null=GPUS),
        shows=("H2D_STRAGGLER",),
    ),
    Scenario(
        "compute_straggler",
        "a rank slow in forward is named",
        _compute_straggler,
        _found("COMPUTE_STRAGGLER", (1,)),
        shows=("COMPUTE_STRAGGLER",),
    ),
    Scenario(
        "backward_straggler",
        "a rank slow in its own backward is named where the end of its own work is marked",
        _backward_straggler,
        _found("BACKWARD_STRAGGLER", (2,)),
        shows=("BACKWARD_STRAGGLER",),
    ),
    Scenario(
        "backward_straggler_unmarked",
        "without that mark a slow backward cannot be told from waiting, so nobody is blamed and the "
        "model is not called the cause either",
        _backward_straggler_unmarked,
        Expected(
            "CANNOT_TELL",
            "cannot_tell",
            "info",
            window=(1, 300, 300),
            ranks=4,
            null=CPUS | {"gradient_sync"},
            families={"ranks": "insufficient"},
        ),
        shows=("CANNOT_TELL",),
    ),
    Scenario(
        "slow_link",
        "all ranks wait equally long: that is communication, and no rank is blamed for it",
        _slow_link,
        Expected(
            "EXPOSED_COMM",
            "finding",
            named={"EXPOSED_COMM": None},
            window=(1, 300, 300),
            ranks=4,
            null=CPUS,
            families={**CLEAN, "communication": "finding"},
        ),
        shows=("EXPOSED_COMM",),
    ),
    Scenario(
        "straggler_outside_phases",
        "a rank that is late for a reason outside the phases is named without a phase",
        _straggler_outside_phases,
        _found("STRAGGLER", (1,), null=CPUS - {"callbacks"}),
        shows=("STRAGGLER",),
    ),
    Scenario(
        "rotating_straggler",
        "a different rank is last on each step: the pattern is named, no rank is",
        _rotating_straggler,
        _found("ROTATING_STRAGGLER", None),
        shows=("ROTATING_STRAGGLER",),
    ),
    Scenario(
        "load_imbalance",
        "the last rank of a step is the one that had the most work: the split is to blame, no rank",
        _load_imbalance,
        _found("LOAD_IMBALANCE", None),
        shows=("LOAD_IMBALANCE", "LENGTH_VARIANCE"),
    ),
    Scenario(
        "silent_rank",
        "a rank of the job without a record is missing, not fast, and stays in the universe",
        _silent_rank,
        _found("SILENT_RANK", (2,), seen=(0, 1, 3)),
        shows=("SILENT_RANK",),
    ),
    Scenario(
        "one_node_of_two_slow",
        "all ranks of a slow node are named together",
        _one_node_of_two_slow,
        _found("COMPUTE_STRAGGLER", (4, 5, 6, 7), of=8),
    ),
    Scenario(
        "two_of_eight_slow",
        "two slow ranks are both named",
        _two_of_eight_slow,
        _found("COMPUTE_STRAGGLER", (2, 5), of=8),
    ),
)
