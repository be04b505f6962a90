"""Runs that lose their time between the steps, or to Python and the compiler."""

from dataclasses import replace
from typing import Final

import numpy as np

from tests.scenarios.catalogue.metrics import CLEAN_ONE, ONE_CPU
from tests.scenarios.fleet import CPU, START_NS, Fleet
from tests.scenarios.record import Expected, Ints, Job, Scenario
from traintrace.facts import COMPILED, GC, Event, LoaderSetup


def _epoch_starts() -> Job:
    loader = LoaderSetup(workers=4, prefetch_factor=2, pin_memory=False, persistent=False)
    fleet = Fleet(1, 300, seed=40, setup=replace(CPU, loader=loader))
    fleet.begin_epochs(every=30, boundary_ms=500.0, first_wait_ms=400.0)
    return fleet.job()


def _evaluation_and_checkpoints() -> Job:
    fleet = Fleet(1, 300, seed=41)
    fleet.spend(slice(50, None, 50), "evaluation", 2_500.0)
    fleet.spend(slice(50, None, 50), "checkpoint", 1_000.0)
    return fleet.job()


def _logging_each_step() -> Job:
    fleet = Fleet(1, 300, seed=42)
    fleet.spend(slice(None), "logging", 18.0)
    return fleet.job()


def _unmarked_gap() -> Job:
    fleet = Fleet(1, 300, seed=43)
    fleet.spend(slice(1, None), "gap", 22.0)
    return fleet.job()


def _gc_stalls() -> Job:
    fleet = Fleet(1, 300, seed=44)
    stalls = np.arange(19, 300, 10)
    fleet.gc_ms[:, stalls] = 320.0
    fleet.own["forward"][:, stalls] += 320.0
    fleet.flags[:, stalls] |= GC
    fleet.events[0] = _events(fleet, "gc", stalls, 320.0, ["" for _ in stalls])
    return fleet.job()


def _recompile_storm() -> Job:
    fleet = Fleet(1, 300, seed=45, setup=replace(CPU, compiled=True))
    storm = np.arange(40, 300, 12)
    at = np.concatenate([[0], storm])
    fleet.own["forward"][:, 0] += 1_200.0
    fleet.own["forward"][:, storm] += 900.0
    fleet.flags[:, at] |= COMPILED
    reason = "recompilation: tensor 'x' size mismatch at index 1. expected 128, actual"
    details = ["0/0", *(f"0/{n} {reason} {128 + n}" for n in range(1, len(at)))]
    fleet.events[0] = _events(fleet, "compilation", at, 900.0, details)
    return fleet.job()


def _events(fleet: Fleet, kind: str, at: Ints, ms: float, details: list[str]) -> list[Event]:
    """Give one event of a kind for each position; moments to the second are enough here."""
    spent = sum(np.nan_to_num(v[0]) for v in (*fleet.own.values(), *fleet.before.values()))
    opened = START_NS + np.concatenate([[0.0], np.cumsum(spent)[:-1]]) * 1e6
    return [
        Event(int(opened[index]) + 5_000_000, kind, int(index) + 1, detail, round(ms * 1e6))
        for index, detail in zip(at, details, strict=True)
    ]


def _found(*kinds: str, **changes: object) -> Expected:
    expected = Expected(
        kinds[0],
        "finding",
        named=dict.fromkeys(kinds, (0,)),
        window=(1, 300, 300),
        null=ONE_CPU,
        families={name: state for name, state in CLEAN_ONE.items() if name != "between_steps"},
    )
    return replace(expected, **changes)  # type: ignore[arg-type]  # fields of Expected


SCENARIOS: Final = (
    Scenario(
        "epoch_starts",
        "iterators made anew and slow first batches are billed to starting epochs, not to input",
        _epoch_starts,
        _found("EPOCH_START_COST"),
        shows=("EPOCH_START_COST",),
    ),
    Scenario(
        "evaluation_and_checkpoints",
        "evaluation and checkpoints are billed apart, the larger one leads",
        _evaluation_and_checkpoints,
        _found("EVALUATION_COST", "CHECKPOINT_COST"),
        shows=("EVALUATION_COST", "CHECKPOINT_COST"),
    ),
    Scenario(
        "logging_each_step",
        "logging between all steps is found",
        _logging_each_step,
        _found("LOGGING_COST"),
        shows=("LOGGING_COST",),
    ),
    Scenario(
        "unmarked_gap",
        "time between steps that nobody marked is found, and is not called evaluation",
        _unmarked_gap,
        _found("GAP"),
        shows=("GAP",),
    ),
    Scenario(
        "gc_stalls",
        "pauses of the garbage collector are billed once, to it and not to jitter",
        _gc_stalls,
        _found("GC_PAUSES"),
        shows=("GC_PAUSES",),
    ),
    Scenario(
        "recompile_storm",
        "recompilations are billed once, with their reason, and are no warm-up and no jitter",
        _recompile_storm,
        _found("RECOMPILES"),
        shows=("RECOMPILES",),
    ),
)
