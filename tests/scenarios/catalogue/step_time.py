"""Runs whose time goes to one part of the step."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CLEAN_ONE, ONE_CPU
from tests.scenarios.fleet import CPU, STEP, Fleet
from tests.scenarios.readings import Gauges
from tests.scenarios.record import Expected, Job, Scenario
from traintrace.facts import LoaderSetup

_EIGHT_WORKERS = LoaderSetup(workers=8, prefetch_factor=2, pin_memory=False, persistent=True)


def _input_bound() -> Job:
    gauges = Gauges(process={"workers_cpu_cores": 1.96})
    return Fleet(1, 300, seed=30, step={**STEP, "input_wait": 60.0}, gauges=gauges).job()


def _storage_bound_loader() -> Job:
    waiting = Gauges(
        system={"disk_read_bytes": 520e6},
        process={"workers": 8, "workers_cpu_cores": 0.35},
    )
    return Fleet(
        1,
        300,
        seed=31,
        step={**STEP, "input_wait": 60.0},
        setup=replace(CPU, loader=_EIGHT_WORKERS),
        gauges=waiting,
    ).job()


def _sawtooth_waits() -> Job:
    fleet = Fleet(1, 600, seed=32)
    fleet.begin_epochs(every=60)
    fleet.add("input_wait", np.tile(np.linspace(0.0, 70.0, 60), 10))
    return fleet.job()


def _residual_heavy() -> Job:
    return Fleet(1, 300, seed=33, step={**STEP, "callbacks": 25.0}).job()


def _optimizer_heavy() -> Job:
    return Fleet(1, 300, seed=34, step={**STEP, "optimizer": 70.0}).job()


def _backward_heavy() -> Job:
    return Fleet(1, 300, seed=35, step={**STEP, "forward": 20.0, "backward": 140.0}).job()


def _periodic_spikes() -> Job:
    fleet = Fleet(1, 500, seed=36)
    fleet.own["forward"][:, 24::25] += 700.0
    return fleet.job()


def _drift() -> Job:
    fleet = Fleet(1, 600, seed=37)
    for name in ("forward", "backward", "optimizer"):
        fleet.own[name] *= np.linspace(1.0, 1.6, 600)
    return fleet.job()


def _slow_warmup() -> Job:
    fleet = Fleet(1, 300, seed=38)
    fleet.own["forward"][:, :12] += 8_000.0
    return fleet.job()


_CLEAN_WINDOW = (1, 300, 300)


def _found(kind: str, **changes: object) -> Expected:
    expected = Expected(
        kind,
        "finding",
        named={kind: (0,)},
        window=_CLEAN_WINDOW,
        null=ONE_CPU,
        families={name: state for name, state in CLEAN_ONE.items() if name != "step_time"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "input_bound",
        "waiting for batches is found, and busy workers are told from slow storage",
        _input_bound,
        _found("INPUT_BOUND", severity="critical"),
        shows=("INPUT_BOUND",),
    ),
    Scenario(
        "storage_bound_loader",
        "workers that are idle while training waits do not want more workers",
        _storage_bound_loader,
        _found("INPUT_BOUND", severity="critical"),
    ),
    Scenario(
        "sawtooth_waits",
        "waits that grow within each epoch and begin anew are a wait, no drift",
        _sawtooth_waits,
        _found("INPUT_BOUND", window=(1, 600, 600)),
    ),
    Scenario(
        "residual_heavy",
        "a slow callback is found and named as the largest part of the rest",
        _residual_heavy,
        _found("RESIDUAL_HEAVY", null=ONE_CPU - {"callbacks"}),
        shows=("RESIDUAL_HEAVY",),
    ),
    Scenario(
        "optimizer_heavy",
        "an optimizer that takes two fifths of the step is found",
        _optimizer_heavy,
        _found("OPTIMIZER_HEAVY"),
        shows=("OPTIMIZER_HEAVY",),
    ),
    Scenario(
        "backward_heavy",
        "a backward that takes seven times its forward is found",
        _backward_heavy,
        _found("BACKWARD_HEAVY"),
        shows=("BACKWARD_HEAVY",),
    ),
    Scenario(
        "periodic_spikes",
        "spikes at a fixed spacing are jitter, billed for what lies above the usual step",
        _periodic_spikes,
        _found("JITTER", window=(1, 500, 500)),
        shows=("JITTER",),
    ),
    Scenario(
        "drift",
        "steps that grow over the whole run are drift, not warm-up and not noise",
        _drift,
        _found("DRIFT", window=(1, 600, 600)),
        shows=("DRIFT",),
    ),
    Scenario(
        "slow_warmup",
        "a long slow start is billed as warm-up and kept out of the steady numbers",
        _slow_warmup,
        _found("WARMUP_COST"),
        shows=("WARMUP_COST",),
    ),
)
