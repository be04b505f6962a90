"""Costs and gains against what the same run takes without its cause, and odd numbers that must not spoil them."""

import dataclasses
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.labs.lockstep import Floats, noise, own_work, run_of, synchronise
from tests.labs.runs import make_rank, make_run
from traintrace.facts import COMPILED, COMPILED_KNOWN, Event, RankFacts, RunFacts
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.warmup import warmup_steps

STEPS = 200


def found(analysis: Analysis, kind: str) -> Finding:
    return next(f for f in analysis.findings if f.kind == kind and f.severity != "info")


def wall_s(run: RunFacts) -> float:
    return run.ranks[0].totals.wall_ns / 1e9


def loop_s(run: RunFacts) -> float:
    columns = run.ranks[0].columns
    start, opened, length = (columns[f"{name}_ns"] for name in ("start", "open", "duration"))
    return ((start[-1] or 0) + (length[-1] or 0) - (opened[0] or 0)) / 1e9


def waiting_for_rank_0(account: str, *, inside: bool, ranks: int) -> RunFacts:
    """Make a job in which rank 0 alone does something for a second every 20 steps."""
    busy = range(20, STEPS + 1, 20)
    spent = {step: {account: 1_000.0} for step in busy}
    syncs = [1_001.0 if step in busy else 1.0 for step in range(1, STEPS + 1)]
    work = {"input_wait": 0.5, "forward": 12.0, "backward": 30.0, "optimizer": 2.0, "other": 0.5}
    return make_run(
        *(
            make_rank(
                STEPS,
                rank=rank,
                jitter=0.0,
                ms={**work, "gradient_sync": syncs if rank else 1.0},
                before_ms={} if rank or inside else spent,
                inside_ms=spent if inside and not rank else {},
            )
            for rank in range(ranks)
        )
    )


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("account", ["checkpoint", "evaluation"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_what_one_rank_alone_does_between_steps_is_lost_by_all(
    account: str, inside: bool, ranks: int
) -> None:
    run = waiting_for_rank_0(account, inside=inside, ranks=ranks)
    finding = found(analyse(run), f"{account.upper()}_COST")
    assert finding.ranks == (0,)
    assert finding.cost_s == pytest.approx(10.0)
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(wall_s(run) / (wall_s(run) - 10.0))
    assert "Only rank 0 did so" in finding.why


@pytest.mark.parametrize("since", [0.3, 0.7])
def test_growth_of_all_ranks_is_won_back_on_all_of_them(since: float) -> None:
    rng = np.random.default_rng(5)
    calm = own_work(4, STEPS, noise(rng, (4, STEPS), cv=0.02))
    grown = {**calm, "forward": calm["forward"] + 40.0 * (np.arange(STEPS) >= since * STEPS)}
    before, after = run_of(synchronise(grown)), run_of(synchronise(calm))
    finding = found(analyse(before), "DRIFT")
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(loop_s(before) / loop_s(after), abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_straggler_costs_what_a_repair_wins_and_not_its_excess(seed: int) -> None:
    """Among noisy ranks another one would come last."""
    rng = np.random.default_rng(seed)
    calm = own_work(8, 400, noise(rng, (8, 400), cv=0.2))
    slow = {**calm, "forward": calm["forward"].copy()}
    slow["forward"][3] += 15.0
    before, after = run_of(synchronise(slow)), run_of(synchronise(calm))
    finding = found(analyse(before), "COMPUTE_STRAGGLER")
    lost_s = wall_s(before) - wall_s(after)
    assert finding.ranks == (3,)
    assert finding.evidence["excess_ms"] == pytest.approx(15.0, rel=0.2)
    assert finding.cost_s == pytest.approx(lost_s, rel=0.15)
    assert finding.cost_s < 0.8 * 0.015 * 400
    assert "next slowest" in finding.why


def test_uneven_batches_cost_what_even_ones_win() -> None:
    rng = np.random.default_rng(1)
    factors = noise(rng, (8, 400), cv=0.1)
    samples = rng.integers(20, 45, (8, 400))
    even = own_work(8, 400, factors)
    uneven = {**even, "forward": even["forward"] * samples / 32.0}
    uneven["backward"] = even["backward"] * samples / 32.0
    before, after = run_of(synchronise(uneven)), run_of(synchronise(even))
    ranks = tuple(
        replace(rank, columns={**rank.columns, "samples": samples[rank.rank].tolist()})
        for rank in before.ranks
    )
    finding = found(analyse(replace(before, ranks=ranks)), "LOAD_IMBALANCE")
    assert finding.cost_s == pytest.approx(wall_s(before) - wall_s(after), rel=0.15)


@pytest.mark.parametrize("shape", ["level", "line", "jump"])
def test_growth_does_not_hide_a_warm_up(shape: str) -> None:
    rng = np.random.default_rng(2)
    times = np.arange(400)
    grown = {"level": 0.0 * times, "line": times / 400, "jump": 1.0 * (times >= 240)}[shape]
    slow = np.where(times < 20, 3.0, 1.0)
    step_ns: Floats = (slow + grown) * noise(rng, (1, 400), cv=0.03) * 1e8
    flags = np.zeros((1, 400), dtype=np.int64)
    assert warmup_steps(times + 1, step_ns, flags) == 20


def compiling(rank: int, steps: dict[int, int]) -> RankFacts:
    """Make a rank of a job in which each of `steps` (by rank that compiles) takes 500 ms more."""
    forward = [512.0 if step in steps else 12.0 for step in range(1, STEPS + 1)]
    mine = [step for step, who in steps.items() if who == rank]
    made = make_rank(
        STEPS,
        rank=rank,
        jitter=0.0,
        ms={
            "input_wait": 0.5,
            "forward": [t if s in mine else 12.0 for s, t in enumerate(forward, 1)],
            "backward": 30.0,
            "gradient_sync": [
                501.0 if s in steps and s not in mine else 1.0 for s in range(1, STEPS + 1)
            ],
            "optimizer": 2.0,
        },
        flags={s: COMPILED_KNOWN | (COMPILED if s in mine else 0) for s in range(1, STEPS + 1)},
    )
    opened = made.columns["open_ns"]
    events = [
        Event((opened[s - 1] or 0) + 1_000, "compilation", s, f"0/{n}: size mismatch", 500_000_000)
        for n, s in enumerate(mine, 1)
    ]
    return replace(made, events=events)


@pytest.mark.parametrize("who", ["each in turn", "the last alone"])
def test_all_ranks_lose_what_any_of_them_compiles(who: str) -> None:
    at = range(60, 180, 10)
    steps = {step: place % 4 if who == "each in turn" else 3 for place, step in enumerate(at)}
    analysis = analyse(make_run(*(compiling(rank, steps) for rank in range(4))))
    finding = found(analysis, "RECOMPILES")
    assert finding.cost_s == pytest.approx(0.5 * len(steps))
    assert not [f for f in analysis.findings if f.family == "ranks" and f.severity != "info"]


def test_late_rounds_of_tiny_steps_are_mentioned_only() -> None:
    """A round of 0.3 ms is late whenever the scheduler looks elsewhere."""
    rng = np.random.default_rng(4)
    own = {
        name: part * 0.006 for name, part in own_work(8, 400, noise(rng, (8, 400), cv=0.02)).items()
    }
    late = np.flatnonzero(rng.random(400) < 0.5)
    own["forward"][rng.integers(0, 8, len(late)), late] += 0.15
    analysis = analyse(run_of(synchronise(own, link_ms=0.01)))
    finding = next(f for f in analysis.findings if f.kind == "ROTATING_STRAGGLER")
    assert finding.severity == "info"
    assert finding.cost_s < 0.1


def numbers(part: object) -> Iterator[float]:
    """Give every number of an analysis, the window's matrices left out."""
    if isinstance(part, float):
        yield part
    elif dataclasses.is_dataclass(part) and not isinstance(part, StepWindow | type):
        for field in dataclasses.fields(part):
            yield from numbers(getattr(part, field.name))
    elif isinstance(part, dict):
        for value in part.values():
            yield from numbers(value)
    elif isinstance(part, tuple | list):
        for value in part:
            yield from numbers(value)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("value", [0, -1_000_000, 10**18])
@pytest.mark.parametrize(
    "column", ["duration_ns", "forward_ns", "input_wait_ns", "gc_ns", "samples", "open_ns"]
)
def test_broken_numbers_give_no_warning_and_no_nan(column: str, value: int, ranks: int) -> None:
    made = []
    for rank in range(ranks):
        good = make_rank(60, rank=rank, before_ms={20: {"gap": 900.0}}, gc_ms=0.1)
        values = [value if place % 7 == rank else v for place, v in enumerate(good.columns[column])]
        made.append(replace(good, columns={**good.columns, column: values}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis = analyse(make_run(*made))
    assert all(math.isfinite(number) for number in numbers(analysis))


def test_a_span_of_no_length_is_no_division_by_zero() -> None:
    rank = make_rank(60, before_ms={20: {"gap": 900.0}})
    empty = replace(rank, totals=replace(rank.totals, wall_ns=0))
    assert all(math.isfinite(number) for number in numbers(analyse(make_run(empty))))
