"""The statistics behind drift and slow steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace_analysis.drift import find_drift, line_ends
from traintrace_analysis.levels import local_level, local_spread, without_spikes
from traintrace_analysis.spikes import find_spikes
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.step_window import Floats

series = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=120).map(np.array)


def wave(count: int, phi: float, rng: np.random.Generator) -> Floats:
    """Draw standard normal values with lag-1 autocorrelation `phi`."""
    fresh = rng.normal(size=count + 100)
    values = np.zeros(count + 100)
    for k in range(1, len(values)):
        values[k] = phi * values[k - 1] + fresh[k]
    drawn: Floats = values[100:] * np.sqrt(1.0 - phi**2)
    return drawn


@settings(max_examples=60, deadline=None)
@given(series)
def test_the_level_of_a_series_is_positive_and_as_long_as_it(values: Floats) -> None:
    level = local_level(values)
    assert len(level) == len(values)
    assert (level > 0.0).all()
    assert local_spread(values, level) >= 0.0


@settings(max_examples=60, deadline=None)
@given(series)
def test_a_spike_lies_above_its_level_by_its_excess_and_other_steps_have_none(
    values: Floats,
) -> None:
    spikes = find_spikes(values, np.arange(len(values)))
    assert np.array_equal(np.flatnonzero(spikes.excess), spikes.places)
    assert (values[spikes.places] - spikes.excess[spikes.places] > 0.0).all()
    assert (spikes.excess[spikes.places] >= values[spikes.places] / 2 * (1 - 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(3, 8), st.floats(3.0, 20.0))
def test_spikes_at_a_fixed_distance_are_found_with_it(
    distance: int, number: int, size: float
) -> None:
    values = np.ones(distance * number + distance)
    values[distance::distance][:number] = size
    spikes = find_spikes(values, np.arange(1, len(values) + 1))
    if distance > 2:  # every second step is no exception to any level
        assert len(spikes.places) == len(values[distance::distance][:number])
        assert spikes.spacing == distance
        assert spikes.periodic


def test_spikes_at_random_distances_have_none() -> None:
    rng = np.random.default_rng(1)
    periodic = []
    for _ in range(200):
        values = np.where(rng.random(300) < 0.03, 5.0, 1.0) * rng.lognormal(0.0, 0.05, 300)
        periodic.append(find_spikes(values, np.arange(300)).periodic)
    assert np.mean(periodic) <= 0.02


def test_taking_out_spikes_leaves_a_drift_alone() -> None:
    line = np.linspace(10.0, 40.0, 200)
    spiky = line.copy()
    spiky[30::40] += 300.0
    assert without_spikes(spiky) == pytest.approx(line, rel=0.05)


@settings(max_examples=40, deadline=None)
@given(st.floats(1.0, 1e6), st.floats(-0.004, 0.02), st.integers(10, 300))
def test_a_straight_line_has_the_ends_that_it_has(start: float, slope: float, count: int) -> None:
    line = start * (1.0 + slope * np.arange(count) / count)
    ends = line_ends(line)
    assert ends is not None
    assert ends == pytest.approx((line[0], line[-1]), rel=1e-9)
    assert line_ends(line[:9]) is None


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 1e9), st.integers(0, 50))
def test_drift_does_not_depend_on_the_unit(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.linspace(10.0, 14.0, 200) * rng.lognormal(0.0, 0.03, 200)
    small, large = find_drift(values), find_drift(values * scale)
    assert small is not None
    assert large is not None
    assert large.growth == pytest.approx(small.growth, rel=1e-6)
    assert large.shift_at == small.shift_at


@pytest.mark.parametrize(
    ("shape", "growth"),
    [
        (lambda u: 1.0 + 2.0 * u, 2.0),
        (lambda u: 3.0**u, 2.0),
        (lambda u: 1.0 + 0.5 * (1.0 - np.exp(-4.0 * u)), 0.49),
        (lambda u: 1.0 + 0.5 * (u > 0.7), 0.5),
    ],
    ids=["even", "faster and faster", "slower and slower", "at once"],
)
@pytest.mark.parametrize("count", [100, 400, 3_000])
def test_growth_of_any_shape_is_found_with_its_size(shape, growth: float, count: int) -> None:  # type: ignore[no-untyped-def]  # a lambda
    rng = np.random.default_rng(count)
    found = [
        find_drift(shape(np.linspace(0.0, 1.0, count)) * np.exp(0.03 * wave(count, 0.5, rng)))
        for _ in range(20)
    ]
    sizes = [drift.growth for drift in found if drift is not None]
    assert len(sizes) >= 19
    assert np.median(sizes) == pytest.approx(growth, rel=0.12)


@pytest.mark.parametrize("teeth", [2, 3, 10])
def test_what_starts_anew_is_no_growth(teeth: int) -> None:
    rng = np.random.default_rng(teeth)
    ramp = 1.0 + 0.5 * ((teeth * np.linspace(0.0, 1.0, 300)) % 1.0)
    found = [find_drift(ramp * np.exp(0.05 * wave(300, 0.5, rng))) for _ in range(30)]
    assert sum(drift is not None for drift in found) <= 1


def test_a_level_series_and_a_falling_one_have_no_drift() -> None:
    assert find_drift(np.full(200, 3.0)) is None
    assert find_drift(np.linspace(20.0, 10.0, 200)) is None


def alarms(count: int, phi: float, runs: int) -> float:
    rng = np.random.default_rng([count, int(10 * phi)])
    found = 0
    for _ in range(runs):
        values = np.exp(0.2 * wave(count, phi, rng))
        values[rng.random(count) < 0.01] *= 4.0
        found += find_drift(values) is not None
    return found / runs


@pytest.mark.parametrize("count", [60, 100, 400])
def test_slow_waves_are_hardly_ever_growth(count: int) -> None:
    assert alarms(count, 0.9, 150) <= 0.02


@pytest.mark.long
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("count", [60, 80, 100, 200, 500, 2_000])
def test_slow_waves_are_growth_in_one_run_of_two_hundred_at_most(count: int, phi: float) -> None:
    assert alarms(count, phi, 1_500) <= 0.005 + 2.0 * np.sqrt(0.005 / 1_500)


@pytest.mark.long
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("count", [50, 100, 200, 400, 1_000])
def test_few_runs_show_an_interval_that_misses_the_truth(count: int, phi: float) -> None:
    """Where steps remember much, the few intervals that are given cover less, but most are refused."""
    wrong, runs = 0, 300
    truth = 3.0 * np.exp(0.045) / (3.0 * np.exp(0.045) + 10.0 * np.exp(0.005))
    for seed in range(runs):
        rng = np.random.default_rng([seed, count])
        wait = 3.0 * np.exp(0.3 * wave(count, phi, rng))
        ratio = estimate_ratio(wait, wait + 10.0 * rng.lognormal(0.0, 0.1, count))
        assert ratio is not None
        bounds = ratio.interval()
        wrong += bounds is not None and not bounds[0] <= truth <= bounds[1]
    assert wrong / runs <= 0.07
