"""The statistics of skewed, spiky, correlated series."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace_analysis.metrics import describe, representative
from traintrace_analysis.statistics import (
    autocorrelation_time,
    block_means,
    cautious_time,
    comparison_block,
    estimate_ratio,
    winsorise,
)
from traintrace_analysis.thresholds import TABLE, limit
from traintrace_analysis.warmup import mser_cut, warmup_steps

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
def test_no_series_remembers_less_than_a_step_or_more_than_all(values: np.ndarray) -> None:
    assert 1.0 <= autocorrelation_time(values) <= cautious_time(values) + 1e-9 <= len(values) + 1e-6


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
def test_a_constant_ratio_has_no_error(values: np.ndarray) -> None:
    ratio = estimate_ratio(values * 0.25, values)
    assert ratio is not None
    assert ratio.value == pytest.approx(0.25, rel=1e-9)
    assert ratio.error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("phi", "tau"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_tau_finds_the_memory_of_an_autoregression(phi: float, tau: float) -> None:
    assert autocorrelation_time(correlated(50_000, phi)) == pytest.approx(tau, rel=0.15)


def test_a_constant_series_has_no_memory() -> None:
    assert autocorrelation_time(np.full(100, 7.3)) == 1.0


def test_an_alternating_series_claims_no_more_than_its_length() -> None:
    assert autocorrelation_time(np.tile([1.0, 2.0], 50)) == 1.0


def test_a_spike_does_not_move_the_winsorised_mean_far() -> None:
    calm = np.log(10.0 + np.random.default_rng(1).normal(size=500))
    spiky = calm.copy()
    spiky[::100] += 5.0
    assert winsorise(spiky).mean() == pytest.approx(calm.mean(), abs=0.01)
    assert abs(spiky.mean() - calm.mean()) > 0.04


def coverage(
    runs: int, draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]], truth: float
) -> tuple[float, float]:
    """Give how often the interval holds `truth`, and how often there is an interval."""
    bounds = []
    for seed in range(runs):
        cause, rest = draw(np.random.default_rng(seed))
        ratio = estimate_ratio(cause, cause + rest)
        assert ratio is not None
        bounds.append(ratio.interval())
    given = [pair for pair in bounds if pair is not None]
    return float(np.mean([low <= truth <= high for low, high in given])), len(given) / runs


@pytest.mark.parametrize(
    ("phi", "count", "kept"), [(0.0, 100, 0.9), (0.5, 400, 0.9), (0.9, 1600, 0.9)]
)
def test_intervals_hold_the_true_share_of_steps_with_memory(
    phi: float, count: int, kept: float
) -> None:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        wait = 0.3 * np.sqrt(1 - phi**2) * correlated(count + 100, phi, int(rng.integers(2**31)))
        return 3.0 * np.exp(wait[100:]), 10.0 * rng.lognormal(0.0, 0.1, count)

    wait, rest = 3.0 * np.exp(0.045), 10.0 * np.exp(0.005)
    held, given = coverage(150, draw, wait / (wait + rest))
    assert held >= 0.91
    assert given >= kept


def test_an_interval_is_refused_where_a_few_spikes_decide() -> None:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        wait = np.full(200, 0.5)
        wait[rng.choice(200, 2, replace=False)] = 400.0
        return wait, 10.0 * rng.lognormal(0.0, 0.1, 200)

    refused = [estimate_ratio(*draw(np.random.default_rng(seed))) for seed in range(20)]
    assert all(ratio is not None and ratio.interval() is None for ratio in refused)


def test_the_memory_that_counts_is_that_of_the_ratio() -> None:
    step = np.linspace(10.0, 40.0, 100)
    cause = 0.98 * step + 0.01 * np.random.default_rng(3).normal(size=100)
    ratio = estimate_ratio(cause, step)
    assert ratio is not None
    assert 100 / autocorrelation_time(cause) < 20  # alone it drifts
    assert ratio.independent > 50
    assert ratio.interval() == pytest.approx((0.98, 0.98), abs=0.001)


def test_no_steps_give_no_ratio() -> None:
    assert estimate_ratio(np.empty(0), np.empty(0)) is None
    assert estimate_ratio(np.ones(3), np.zeros(3)) is None


def test_one_run_never_proves_more_than_nineteen_in_twenty() -> None:
    rng = np.random.default_rng(5)
    cause, step = rng.normal(5.0, 0.1, 400), np.full(400, 10.0)
    ratio = estimate_ratio(cause, step)
    assert ratio is not None
    assert (ratio.chance_at_least(0.1), ratio.chance_at_least(0.9)) == (0.95, 0.05)
    assert ratio.chance_at_least(ratio.value) == pytest.approx(0.5)


def spikes(count: int, every: int, rng: np.random.Generator) -> np.ndarray:
    return np.where(np.arange(count) % every == 0, 60.0, 10.0) * rng.lognormal(0.0, 0.03, count)


FALSE_STARTS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "independent": lambda n, rng: 10.0 * rng.lognormal(0.0, 0.5, n),
    "alternating": lambda n, rng: spikes(n, 2, rng),
    "every tenth": lambda n, rng: spikes(n, 10, rng),
    "slow to forget": lambda n, rng: np.exp(0.13 * correlated(n, 0.9, int(rng.integers(2**31)))),
}


@pytest.mark.parametrize("noise", FALSE_STARTS)
@pytest.mark.parametrize("count", [40, 100, 300])
def test_noise_is_no_warm_up(noise: str, count: int) -> None:
    rng = np.random.default_rng(11)
    cuts = [warm_up(FALSE_STARTS[noise](count, rng)) for _ in range(60)]
    assert sum(cut > 0 for cut in cuts) <= (3 if noise == "slow to forget" else 0)


@pytest.mark.parametrize("count", [40, 100, 300])
def test_a_true_warm_up_is_cut_where_it_ends(count: int) -> None:
    rng = np.random.default_rng(12)
    start = np.concatenate([np.full(5, 200.0), np.full(count - 5, 10.0)])
    cuts = [warm_up(start * rng.lognormal(0.0, 0.05, count)) for _ in range(40)]
    assert np.median(cuts) == 5
    assert min(cuts) == 5


def warm_up(step_ms: np.ndarray) -> int:
    count = len(step_ms)
    return warmup_steps(
        np.arange(1, count + 1), step_ms[None, :] * 1e6, np.zeros((1, count), dtype=np.int64)
    )


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


UNITS = {
    "share",
    "steps",
    "ms",
    "s",
    "ratio",
    "log",
    "bytes",
    "bytes/s",
    "degC",
    "W",
    "cores",
    "count",
    "readings",
}


def test_every_threshold_says_where_it_comes_from() -> None:
    for name, threshold in TABLE.items():
        assert threshold.source.strip(), name
        assert threshold.unit in UNITS, name
        assert limit(name) == threshold.value
    with pytest.raises(KeyError):
        limit("no such limit")


def test_critical_limits_lie_above_warning_limits() -> None:
    for name in TABLE:
        critical = name.removesuffix("_warning") + "_critical"
        if critical in TABLE and critical != name:
            assert limit(name) < limit(critical)
