"""Runs whose story is beyond the step's phases: learning, efficiency, communication, pipelines."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.labs.stages import line
from tests.scenarios.catalogue.metrics import CLEAN_ONE, CPUS, ONE_CPU, ONE_GPU
from tests.scenarios.fleet import CPU, GPU, STEP, Fleet
from tests.scenarios.record import Expected, Floats, Job, Scenario
from traintrace.facts import Region
from traintrace.flopfacts import FlopFacts

_STEPS: Final = 600


def _loss(fleet: Fleet, noise: float = 0.05) -> Floats:
    """A loss that falls from 4 to 2 and scatters."""
    course = 2.0 + 2.0 * np.exp(-np.arange(fleet.steps) / 200.0)
    return course * np.exp(noise * fleet.random.standard_normal(fleet.steps))


def _norm(fleet: Fleet) -> Floats:
    return 1.5 * np.exp(0.15 * fleet.random.standard_normal(fleet.steps))


def _learning(seed: int) -> Fleet:
    fleet = Fleet(1, _STEPS, seed=seed)
    fleet.logged = {"loss": _loss(fleet), "grad_norm": _norm(fleet)}
    return fleet


def _learns() -> Job:
    return _learning(110).job()


def _diverged() -> Job:
    fleet = _learning(111)
    fleet.logged["loss"][400:] = np.nan
    fleet.logged["grad_norm"][400:] = np.nan
    return fleet.job()


def _no_progress() -> Job:
    fleet = _learning(112)
    fleet.logged["loss"][300:] *= np.linspace(1.0, 1.4, 300)
    return fleet.job()


def _loss_spike() -> Job:
    fleet = _learning(113)
    fleet.logged["loss"][300:303] *= 6.0
    return fleet.job()


def _grad_norm_explosion() -> Job:
    fleet = _learning(114)
    fleet.logged["grad_norm"][450:] *= np.exp(np.linspace(0.0, 9.0, _STEPS - 450))
    return fleet.job()


def _correlated_instability() -> Job:
    fleet = _learning(115)
    at = slice(350, 353)
    fleet.logged["loss"][at] *= 6.0
    fleet.logged["grad_norm"][at] *= 40.0
    fleet.own["forward"][:, at] += 250.0
    return fleet.job()


def _on_gpu(seed: int, flops_per_step: float, **step: float) -> Fleet:
    """One H100, whose published peak in bf16 is 989.4 TFLOP/s."""
    fleet = Fleet(1, 300, seed=seed, step={**STEP, "h2d": 1.0, **step}, setup=GPU)
    fleet.flops = FlopFacts(flops_per_step=flops_per_step)
    return fleet


def _near_peak() -> Job:
    return _on_gpu(116, 50e12).job()


def _far_from_peak() -> Job:
    return _on_gpu(117, 5e12).job()


def _much_prediction() -> Job:
    fleet = _on_gpu(118, 50e12)
    fleet.spend(np.arange(50, 300, 50), "prediction", 4_000.0)
    return fleet.job()


def _bound_by_network() -> Job:
    return Fleet(4, 300, seed=119, setup=replace(CPU, strategy="ddp"), collective_ms=90.0).job()


def _pipeline_bubble() -> Job:
    """Two ranks with a stage each and eight micro-batches, which wait far longer than their schedule makes them."""
    fleet = Fleet(2, 300, seed=120, setup=replace(CPU, strategy="pipeline"))
    for rank in range(2):
        fleet.regions[rank] = [
            Region(step, f"pipeline.stage{rank}.{way}", ns, 8)
            for step in range(1, fleet.steps + 1)
            for way, ns in (("forward", 14_000_000), ("backward", 28_000_000))
        ]
    return fleet.job()


def _staged(seed: int, *means_ms: float, capacity: int, variation: float) -> Fleet:
    """A loop of a short step beside a pipeline of threads."""
    fleet = Fleet(1, 300, seed=seed)
    fleet.pipeline = line(*means_ms, count=2_000, capacity=capacity, variation=variation, seed=seed)
    return fleet


def _slow_stage() -> Job:
    return _staged(121, 8.0, 14.0, 9.0, capacity=4, variation=0.2).job()


def _small_queues() -> Job:
    return _staged(122, 10.0, 10.1, 10.0, capacity=1, variation=1.0).job()


def _found(kind: str, **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: None},
        window=(1, 300, 300),
        null=ONE_CPU,
        families={},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]


def _balanced(**changes: object) -> Expected:
    fine = replace(
        _found("COMPUTE_BOUND"),
        outcome="balanced",
        severity="info",
        named={},
        noted=("COMPUTE_BOUND",),
    )
    return replace(fine, **changes)  # type: ignore[arg-type]


_LEARNING: Final = {"window": (1, _STEPS, _STEPS), "families": CLEAN_ONE}
_GPU_RUN: Final = {"clock": "device", "null": ONE_GPU}

SCENARIOS: Final = (
    Scenario(
        "falling_loss", "A loss that falls with noise is no finding.", _learns,
        replace(_balanced(**_LEARNING), families={**CLEAN_ONE, "convergence": "clean"}),
    ),
    Scenario(
        "diverged", "A loss that is lost for good is told with the step it was lost at.", _diverged,
        _found("DIVERGED", **_LEARNING), shows=("DIVERGED",),
    ),
    Scenario(
        "no_progress", "A loss that rises again is told, and costs no time.", _no_progress,
        _balanced(**_LEARNING, named={"NO_PROGRESS": None}), shows=("NO_PROGRESS",),
    ),
    Scenario(
        "loss_spike", "A loss that jumps and comes back is a spike.", _loss_spike,
        _balanced(**_LEARNING, named={"LOSS_SPIKE": None}), shows=("LOSS_SPIKE",),
    ),
    Scenario(
        "grad_norm_explosion", "A gradient norm that grows without end is told before the loss is lost.",
        _grad_norm_explosion,
        _balanced(**_LEARNING, named={"GRAD_NORM_EXPLOSION": None}), shows=("GRAD_NORM_EXPLOSION",),
    ),
    Scenario(
        "correlated_instability", "Signals that are measured apart and jump together are told as one event.",
        _correlated_instability,
        _balanced(
            **_LEARNING,
            named=dict.fromkeys(("CORRELATED_INSTABILITY", "GRAD_NORM_EXPLOSION", "LOSS_SPIKE")),
        ),
        shows=("CORRELATED_INSTABILITY",),
    ),
    Scenario(
        "near_peak", "A run at half of its device's peak is left alone.", _near_peak,
        replace(_balanced(**_GPU_RUN), families={**CLEAN_ONE, "efficiency": "clean"}),
    ),
    Scenario(
        "far_from_peak", "Compute far from the device's peak is told in seconds.", _far_from_peak,
        _found("LOW_MFU", **_GPU_RUN), shows=("LOW_MFU",),
    ),
    Scenario(
        "much_prediction", "A large line of the wall that nothing else names is pointed at.", _much_prediction,
        _found(
            "CANNOT_TELL", **_GPU_RUN, outcome="cannot_tell", named={}, noted=("RECOVERABLE",)
        ),
        shows=("RECOVERABLE",),
    ),
    Scenario(
        "bound_by_network", "Ranks that all wait are bound by communication, and no rank is blamed.",
        _bound_by_network,
        _found("COMM_BOUND", null=CPUS, ranks=4), shows=("COMM_BOUND",),
    ),
    Scenario(
        "pipeline_bubble", "Only the bubble beyond what the schedule costs is told.", _pipeline_bubble,
        _found("PIPELINE_BUBBLE", null=CPUS, ranks=2), shows=("PIPELINE_BUBBLE",),
    ),
    Scenario(
        "slow_stage", "The stage that limits a pipeline is named, and those that wait for it are its victims.",
        _slow_stage,
        _found("STAGE_BOTTLENECK"), shows=("STAGE_BOTTLENECK",),
    ),
    Scenario(
        "small_queues", "Stages that are equally fast lose time to queues that are too small.",
        _small_queues,
        _found("STARVED", named={"STARVED": None, "QUEUE_TOO_SMALL": None}, noted=("BLOCKED",)),
        shows=("STARVED", "QUEUE_TOO_SMALL", "BLOCKED"),
    ),
)  # fmt: skip
