"""The canonical window: which steps, which clock, which values are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace.accounts import GROUPS, PHASES
from traintrace.facts import COMPILED, COMPILED_KNOWN, WARMUP, RankFacts, RunFacts, Setup
from traintrace_analysis import REQUIRED_COLUMNS, analyse
from traintrace_analysis.columns import common_steps

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Scenarios = Mapping[str, RunFacts]


def test_only_steps_that_every_rank_completed_are_in_the_window(scenarios: Scenarios) -> None:
    window = analyse(scenarios["rank_missing_steps"]).window
    assert len(window.steps) == 96
    assert not {40, 41, 42, 43} & set(window.steps.tolist())


def test_the_window_is_the_latest_steps(new_rank: NewRank, new_run: NewRun) -> None:
    analysis = analyse(new_run(new_rank(300)), window_steps=100)
    assert (analysis.window.steps[0], analysis.window.steps[-1]) == (201, 300)
    assert analysis.counts.steps == 300


def test_a_window_of_no_steps_is_refused(new_run: NewRun) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        analyse(new_run(), window_steps=0)


def test_the_expected_ranks_are_kept_when_some_recorded_nothing(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["rank_without_rows"])
    assert analysis.window.expected_ranks == (0, 1, 2, 3)
    assert analysis.window.ranks == (0, 1)
    assert analysis.metrics["step_time"].by_rank[3] is None
    assert analysis.coverage["forward"].state == "partial"
    assert any("rank 2" in warning for warning in analysis.warnings)


def test_the_latest_attempt_is_analysed_and_the_others_are_listed(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["restarted"])
    assert analysis.window.attempt == 1
    assert [attempt.steps for attempt in analysis.attempts] == [30, 40]
    assert analysis.attempts[1].downtime_before_s == pytest.approx(59.6, abs=0.1)


def test_the_device_clock_is_used_when_it_covers_every_phase(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["gpu_device_clock"])
    assert analysis.window.clock == "device"
    backward = analysis.metrics["backward"]
    assert backward.clock == "device"
    assert backward.device_mean_ms == pytest.approx(6.5)
    assert backward.host_mean_ms == pytest.approx(1.0, rel=0.05)
    assert analysis.metrics["input_wait"].clock == "host"
    assert analysis.metrics["residual"].clock == "derived"


def test_one_rank_without_device_times_puts_the_whole_window_on_the_host_clock(
    new_rank: NewRank, new_run: NewRun, gpu_setup: Setup, cpu_step: dict[str, float]
) -> None:
    device = {"forward": 3.0, "backward": 6.0, "optimizer": 1.0}
    with_events = new_rank(rank=0, setup=gpu_setup, ms=cpu_step, device_ms=device)
    without = new_rank(rank=1, setup=gpu_setup, ms=cpu_step)
    assert analyse(new_run(with_events, without)).window.clock == "host"


def test_a_few_steps_without_device_times_do_not_change_the_clock(
    new_rank: NewRank, new_run: NewRun, gpu_setup: Setup, cpu_step: dict[str, float]
) -> None:
    def device(lost: int) -> dict[str, list[float | None]]:
        phases = {"forward": 3.0, "backward": 6.0, "optimizer": 1.0}
        return {name: [None] * lost + [value] * (100 - lost) for name, value in phases.items()}

    few = new_rank(setup=gpu_setup, ms=cpu_step, device_ms=device(5))
    many = new_rank(setup=gpu_setup, ms=cpu_step, device_ms=device(6))
    assert analyse(new_run(few)).window.clock == "device"
    assert analyse(new_run(many)).window.clock == "host"


def test_transfers_that_happen_on_some_steps_are_zero_on_the_others(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    sometimes = [2.0 if k % 2 else None for k in range(100)]
    h2d = analyse(new_run(new_rank(ms={**cpu_step, "h2d": sometimes}))).metrics["h2d"]
    assert (h2d.n, h2d.min_ms) == (100, 0.0)
    assert h2d.mean_ms == pytest.approx(1.0, rel=0.02)


def test_transfers_that_never_happened_are_unknown_and_not_zero(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["plain_cpu"])
    assert analysis.metrics["h2d"].mean_ms is None
    assert analysis.coverage["h2d"].state == "not_measured"
    assert analysis.metrics["residual"].mean_ms is not None


def test_a_required_phase_missing_on_more_than_one_step_in_twenty_is_unknown(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    def forward(lost: int) -> list[float | None]:
        return [4.0] * (100 - lost) + [None] * lost

    five = analyse(new_run(new_rank(ms={**cpu_step, "forward": forward(5)}))).metrics
    six = analyse(new_run(new_rank(ms={**cpu_step, "forward": forward(6)}))).metrics
    assert five["forward"].n == five["residual"].n == 95
    assert six["forward"].mean_ms is six["compute"].mean_ms is six["residual"].mean_ms is None


def test_a_measured_zero_takes_part(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    metrics = analyse(new_run(new_rank(ms={**cpu_step, "forward": 0.0}))).metrics
    assert metrics["forward"].mean_ms == 0.0
    assert metrics["compute"].mean_ms == pytest.approx(7.0, rel=0.01)


def test_evaluation_inside_a_step_is_no_step_time(scenarios: Scenarios) -> None:
    metrics = analyse(scenarios["checkpoint_inside_steps"]).metrics
    assert metrics["step_time"].max_ms == pytest.approx(11.8, rel=0.04)


def test_the_accounts_of_a_step_add_up_to_its_time(scenarios: Scenarios) -> None:
    for name in ("plain_cpu", "evaluation", "checkpoint_inside_steps", "gpu_host_clock"):
        window = analyse(scenarios[name]).window
        parts = sum(
            np.nan_to_num(window.host[account])
            for account in (*PHASES, *GROUPS["residual"])
            if account in window.host
        )
        assert np.array_equal(parts, window.host["step_time"]), name
        assert np.allclose(
            window.host["residual"] + window.host["compute"] + window.host.get("h2d", 0.0),
            window.host["traced_step_time"],
        )


def test_a_slow_start_is_set_apart_and_reported(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    forward = [200.0] * 10 + [4.0] * 190
    analysis = analyse(new_run(new_rank(200, ms={**cpu_step, "forward": forward})))
    assert analysis.window.warmup_steps == 10
    assert analysis.warmup_ms == pytest.approx(2078.0, rel=0.05)
    assert analysis.metrics["step_time"].n == 190


def test_steady_steps_are_not_called_a_warm_up(scenarios: Scenarios) -> None:
    assert analyse(scenarios["plain_cpu"]).window.warmup_steps == 0


def test_a_slow_first_step_alone_is_a_warm_up(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    forward = [900.0] + [4.0] * 99
    analysis = analyse(new_run(new_rank(ms={**cpu_step, "forward": forward})))
    assert analysis.window.warmup_steps == 1


def test_one_slow_step_in_the_middle_is_no_warm_up(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    forward = [4.0] * 40 + [900.0] + [4.0] * 59
    analysis = analyse(new_run(new_rank(ms={**cpu_step, "forward": forward})))
    assert analysis.window.warmup_steps == 0
    assert analysis.metrics["step_time"].max_ms == pytest.approx(907.8, rel=0.04)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [((1, 2, 5), 5), ((1, 60), 1), ((60,), 0), ((), 0)],
)
def test_compilations_at_the_start_are_warm_up_and_later_ones_are_not(
    new_rank: NewRank, new_run: NewRun, marks: Sequence[int], expected: int
) -> None:
    flags = dict.fromkeys(marks, COMPILED | COMPILED_KNOWN)
    assert analyse(new_run(new_rank(flags=flags))).window.warmup_steps == expected


def test_steps_declared_as_warm_up_are_warm_up(new_rank: NewRank, new_run: NewRun) -> None:
    flags = {step: WARMUP for step in range(1, 21)}
    assert analyse(new_run(new_rank(flags=flags))).window.warmup_steps == 20


def test_columns_that_a_file_lacks_count_as_not_measured(
    new_rank: NewRank, new_run: NewRun
) -> None:
    rank = new_rank()
    kept = {name: rank.columns[name] for name in ("step", "start_ns", "open_ns", "duration_ns")}
    analysis = analyse(new_run(replace(rank, columns=kept)))
    assert analysis.metrics["step_time"].n == 100
    assert analysis.verdict.kind == "INCOMPLETE_DATA"


def test_every_required_column_exists_in_the_builder(new_rank: NewRank) -> None:
    assert set(REQUIRED_COLUMNS) <= set(new_rank(1).columns)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sets(st.integers(1, 40), min_size=1), min_size=1, max_size=4), st.integers(1, 50)
)
def test_common_steps_are_the_latest_of_the_intersection(ids: list[set[int]], length: int) -> None:
    class Stub:
        def __init__(self, steps: set[int]) -> None:
            self.columns = {"step": sorted(steps)}

    common = common_steps([Stub(steps) for steps in ids], length)  # type: ignore[misc]  # only columns are read
    assert common.tolist() == sorted(set.intersection(*ids))[-length:]
