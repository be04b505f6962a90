"""The statistics of skewed, spiky, correlated series."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace_analysis.metrics import describe, representative
from traintrace_analysis.rules.actions import workers_to_hide
from traintrace_analysis.statistics import (
    autocorrelation_time,
    block_means,
    bootstrap_ratios,
    chance_at_least,
    comparison_block,
    effective_count,
    interval,
    winsorise,
)
from traintrace_analysis.thresholds import TABLE, limit
from traintrace_analysis.warmup import mser_cut

durations = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60).map(np.array)


def correlated(
    count: int, phi: float, seed: int = 0
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    noise = np.random.default_rng(seed).normal(size=count)
    series = np.zeros(count)
    for index in range(1, count):
        series[index] = phi * series[index - 1] + noise[index]
    return series


@settings(max_examples=80, deadline=None)
@given(durations)
def test_the_winsorised_mean_lies_between_the_extremes(values: np.ndarray) -> None:
    pulled = winsorise(np.log(values))
    assert np.log(values).min() - 1e-9 <= pulled.mean() <= np.log(values).max() + 1e-9
    assert len(pulled) == len(values)


@settings(max_examples=80, deadline=None)
@given(durations)
def test_there_are_never_more_independent_steps_than_steps(values: np.ndarray) -> None:
    assert 1.0 - 1e-9 <= effective_count(values) <= len(values)


@settings(max_examples=80, deadline=None)
@given(durations, st.integers(1, 20))
def test_block_means_stay_between_the_extremes(values: np.ndarray, length: int) -> None:
    means = block_means(values, length)
    assert len(means) == len(values) // length
    if len(means):
        assert values.min() * (1 - 1e-9) <= means.min()
        assert means.max() <= values.max() * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(durations)
def test_the_interval_of_a_constant_ratio_is_that_ratio(values: np.ndarray) -> None:
    bounds = interval(bootstrap_ratios(values * 0.25, values))
    assert bounds == pytest.approx((0.25, 0.25), rel=1e-6)


@pytest.mark.parametrize(("phi", "tau"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_tau_finds_the_memory_of_an_autoregression(phi: float, tau: float) -> None:
    assert autocorrelation_time(correlated(50_000, phi)) == pytest.approx(tau, rel=0.15)


def test_a_constant_series_has_no_memory() -> None:
    assert autocorrelation_time(np.full(100, 7.3)) == 1.0


def test_an_alternating_series_claims_no_more_than_its_length() -> None:
    assert effective_count(np.tile([1.0, 2.0], 50)) == 100.0


def test_a_spike_does_not_move_the_winsorised_mean_far() -> None:
    calm = np.log(10.0 + np.random.default_rng(1).normal(size=500))
    spiky = calm.copy()
    spiky[::100] += 5.0
    assert winsorise(spiky).mean() == pytest.approx(calm.mean(), abs=0.01)
    assert abs(spiky.mean() - calm.mean()) > 0.04


def test_the_bootstrap_interval_covers_the_true_share_of_correlated_steps() -> None:
    covered = 0
    for seed in range(60):
        wait = 2.0 * np.exp(0.2 * correlated(400, 0.5, seed))
        rest = 8.0 * np.exp(0.05 * correlated(400, 0.5, seed + 1000))
        bounds = interval(bootstrap_ratios(wait, wait + rest))
        assert bounds is not None
        mean_wait = 2.0 * np.exp(0.02 / 0.75)
        mean_rest = 8.0 * np.exp(0.00125 / 0.75)
        covered += bounds[0] <= mean_wait / (mean_wait + mean_rest) <= bounds[1]
    assert covered >= 51  # 85 %: percentile intervals of block bootstraps run a little narrow


def test_no_steps_give_no_interval_and_little_chance() -> None:
    nothing = bootstrap_ratios(np.empty(0), np.empty(0))
    assert interval(nothing) is None
    assert chance_at_least(nothing, 0.1) == 0.05


def test_the_blocks_of_a_long_series_fit_the_file() -> None:
    assert 1_000_000 // comparison_block(1_000_000, 1.0) <= 200
    assert comparison_block(7, 1.0) == 7


def test_a_series_with_zeros_has_no_logarithm_but_still_has_blocks() -> None:
    described = describe(0, np.array([0.0, 1.0] * 50))
    assert described.log_mean is described.log_sd is None
    assert described.block_means_ms == pytest.approx([0.5] * 5)


def test_mser_cuts_where_the_start_ends() -> None:
    values = np.concatenate([np.full(20, 2.0), np.random.default_rng(2).normal(0, 0.1, 200)])
    assert mser_cut(values, 5) == 20


def test_the_representative_rank_is_nearest_the_median_then_lower_value_then_lower_rank() -> None:
    assert representative(np.array([1.0, 9.0, 5.0]), (4, 5, 6)) == 2
    assert representative(np.array([3.0, 1.0]), (0, 1)) == 1
    assert representative(np.array([2.0, 2.0]), (0, 1)) == 0
    assert representative(np.array([np.nan, 2.0]), (0, 1)) == 1
    assert representative(np.array([np.nan]), (0,)) is None


@pytest.mark.parametrize(
    ("workers", "wait_ms", "step_ms", "expected"),
    [(0, 10.0, 12.0, 5), (0, 5.0, 20.0, 1), (4, 8.0, 12.0, 12), (2, 1.0, 10.0, 3), (0, 5.0, 5.0, None)],
)  # fmt: skip
def test_the_workers_that_hide_a_wait_follow_from_the_rates(
    workers: int, wait_ms: float, step_ms: float, expected: int | None
) -> None:
    assert workers_to_hide(workers, wait_ms, step_ms) == expected


def test_every_threshold_says_where_it_comes_from() -> None:
    for name, threshold in TABLE.items():
        assert threshold.source.strip(), name
        assert threshold.unit in {"share", "steps", "ms", "s", "ratio", "log"}, name
        assert limit(name) == threshold.value
    with pytest.raises(KeyError):
        limit("no such limit")


def test_critical_limits_lie_above_warning_limits() -> None:
    for name in TABLE:
        if name.endswith("_warning"):
            assert limit(name) < limit(name.removesuffix("warning") + "critical")
