"""The metrics of a window: what each needs, what a missing part takes along, which rank stands for all."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.runs import CPU_STEP, make_rank, make_run
from traintrace.accounts import PHASES
from traintrace.facts import RankFacts, RunFacts, Setup
from traintrace_analysis import analyse

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Scenarios = Mapping[str, RunFacts]


def test_transfers_that_were_never_seen_say_so_and_count_as_no_work(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["plain_cpu"])
    assert analysis.window.reasons["h2d"].startswith("not_observed")
    assert (analysis.coverage["h2d"].reason or "").startswith("not_observed")
    window = analysis.window
    rest = window.host["traced_step_time"] - window.host["compute"]
    assert np.array_equal(window.host["residual"], rest)


def test_an_optimizer_that_runs_on_some_steps_is_zero_on_the_others(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    every_other = [2.0 if k % 2 else None for k in range(100)]
    metrics = analyse(new_run(new_rank(ms={**cpu_step, "optimizer": every_other}))).metrics
    assert (metrics["optimizer"].n, metrics["optimizer"].min_ms) == (100, 0.0)
    assert metrics["compute"].n == metrics["residual"].n == 100


@pytest.mark.parametrize(
    ("lost", "unknown"),
    [
        ("input_wait", {"input_wait", "traced_step_time", "residual"}),
        ("forward", {"forward", "compute", "residual"}),
        ("backward", {"backward", "compute", "residual"}),
        ("optimizer", {"optimizer", "compute", "residual"}),
    ],
)
def test_a_derived_metric_is_unknown_without_one_of_its_parts_and_names_it(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], lost: str, unknown: set[str]
) -> None:
    del cpu_step[lost]
    analysis = analyse(new_run(new_rank(ms=cpu_step)))
    derived = ("step_time", "traced_step_time", "compute", "residual", *PHASES)
    assert {n for n in derived if analysis.metrics[n].mean_ms is None} == unknown | {"h2d"}
    for name in unknown - {lost}:
        assert lost in analysis.window.reasons[name]


def test_a_rank_without_a_signal_is_left_out_of_that_signal_only(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    blind = {name: value for name, value in cpu_step.items() if name != "forward"}
    metrics = analyse(
        new_run(
            new_rank(rank=0), new_rank(rank=1, ms={**blind, "backward": 60.0}), new_rank(rank=2)
        )
    ).metrics
    for name in ("forward", "compute", "residual"):
        assert metrics[name].by_rank[1] is None
        assert metrics[name].ranks_measured == 2
        assert metrics[name].worst_rank in (0, 2)
    assert metrics["backward"].worst_rank == 1
    assert metrics["step_time"].ranks_measured == 3


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(1.0, 50.0), min_size=2, max_size=6))
def test_worst_value_and_worst_rank_are_of_one_rank_and_the_representative_is_real(
    forward: list[float],
) -> None:
    ranks = [make_rank(20, rank=k, ms={**CPU_STEP, "forward": v}) for k, v in enumerate(forward)]
    for metric in analyse(make_run(*ranks)).metrics.values():
        if metric.worst_rank is None:
            continue
        known = {rank: mean for rank, mean in metric.by_rank.items() if mean is not None}
        assert metric.worst_ms == max(known.values()) == known[metric.worst_rank]
        assert metric.representative_rank in known
        assert metric.mean_ms == pytest.approx(known[metric.representative_rank])
        middle = float(np.median(list(known.values())))
        nearest = min(abs(mean - middle) for mean in known.values())
        assert abs(known[metric.representative_rank] - middle) == pytest.approx(nearest, abs=1e-9)


@pytest.mark.parametrize(
    ("named", "strategy"),
    [(("ddp", "ddp"), "ddp"), (("ddp", "fsdp"), None), (("ddp", None), None), ((None, None), None)],
)
def test_the_window_has_the_strategy_that_all_ranks_name(
    new_rank: NewRank, new_run: NewRun, named: Sequence[str | None], strategy: str | None
) -> None:
    ranks = [
        new_rank(rank=number, setup=Setup(device_kind="cpu", strategy=name))
        for number, name in enumerate(named)
    ]
    assert analyse(new_run(*ranks)).window.strategy == strategy


def test_a_residual_below_zero_on_the_device_clock_is_shown_signed_and_is_no_finding(
    new_rank: NewRank, new_run: NewRun, gpu_setup: Setup
) -> None:
    host = {"input_wait": 4.0, "h2d": 0.1, "forward": 3.0, "backward": 3.0, "optimizer": 0.5}
    device = {"h2d": 0.1, "forward": 3.0, "backward": 6.0, "optimizer": 1.0}
    analysis = analyse(
        new_run(new_rank(setup=gpu_setup, ms={**host, "other": 0.4}, device_ms=device))
    )
    rest = analysis.metrics["residual"]
    assert rest.mean_ms is not None
    assert rest.mean_ms == pytest.approx(7.0 - 10.1, rel=0.05)
    assert rest.min_ms is not None
    assert rest.p99_ms is not None
    assert rest.share is not None
    assert rest.min_ms < rest.p99_ms < 0.0
    assert rest.share < 0.0
    assert rest.tail is None
    assert all(finding.kind != "RESIDUAL_HEAVY" for finding in analysis.findings)
    assert 0.0 <= analysis.verdict.confidence <= 1.0


def test_a_metric_says_where_its_steady_steps_begin_and_end(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    growing = [4.0 + 0.1 * k for k in range(100)]
    metrics = analyse(new_run(new_rank(ms={**cpu_step, "forward": growing}, jitter=0.0))).metrics
    assert metrics["forward"].start_ms == pytest.approx(4.0)
    assert metrics["forward"].end_ms == pytest.approx(13.9)
    assert metrics["forward"].drift_ms == pytest.approx(9.9)
    assert metrics["backward"].drift_ms == pytest.approx(0.0, abs=1e-9)
    assert metrics["h2d"].drift_ms is None
    few = analyse(new_run(new_rank(9))).metrics["step_time"]
    assert few.drift_ms is None
