"""Statistics for step times: skewed, spiky and correlated from step to step.

All functions take finite values in time order. Random draws come from a generator of their own with
a fixed seed, so that the same facts always give the same answer.
"""

import math

import numpy as np

from traintrace_analysis.step_window import Floats

_SEED = 20_260_101
_REPLICATES = 1_000
_MAX_BLOCKS = 200
_MAD_TO_SD = 1.4826  # of a normal distribution


def winsorise(values: Floats) -> Floats:
    """Pull outliers to [median - 10 s, median + 5 s], s = 1.4826 median absolute deviations.

    Meant for logarithms of durations, whose upper tail is the heavier one. Where more than half the
    values are equal, s is 0 and says nothing about spread; they are then returned as they are.
    """
    if not len(values):
        return values
    middle = float(np.median(values))
    spread = _MAD_TO_SD * float(np.median(np.abs(values - middle)))
    if spread <= 0.0:
        return values
    return np.clip(values, middle - 10.0 * spread, middle + 5.0 * spread)


def autocorrelation_time(values: Floats) -> float:
    """Give tau = 1 + 2 sum(rho_k) in steps, summed over the initial positive pair sequence.

    Pairs rho_2k + rho_2k+1 are added until one is not positive (Geyer 1992). Never less than 1,
    so that alternating series claim no more information than independent ones, nor more than n.
    """
    count = len(values)
    if count < 4:
        return 1.0
    centred = values - values.mean()
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum * np.conjugate(spectrum), size)[:count]
    if not covariance[0] > 1e-18 * count * max(1.0, float(np.max(np.abs(values))) ** 2):
        return 1.0
    rho = covariance / covariance[0]
    pairs = rho[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = pairs[: negative[0]] if len(negative) else pairs
    return float(min(max(2.0 * kept.sum() - 1.0, 1.0), count))


def effective_count(values: Floats) -> float:
    """Give how many independent steps `values` are worth: n / tau."""
    return len(values) / autocorrelation_time(values)


def comparison_block(count: int, tau: float) -> int:
    """Give the length of nearly independent blocks: max(20, 6 tau) steps, at most 200 blocks."""
    wanted = max(20, math.ceil(6.0 * tau), math.ceil(count / _MAX_BLOCKS))
    return max(1, min(wanted, count))


def block_means(values: Floats, length: int) -> Floats:
    """Give the means of consecutive whole blocks of `length`; a short last block is left out."""
    whole = len(values) // length
    means: Floats = values[: whole * length].reshape(whole, length).mean(axis=1)
    return means


def bootstrap_ratios(numerator: Floats, denominator: Floats) -> Floats:
    """Draw sum(numerator) / sum(denominator) from a circular moving block bootstrap.

    Blocks keep neighbours together, so that correlation widens the spread as it should. Their
    length is max(n^(1/3), 3 tau) of the longer-remembering series, at most a quarter of n.

    Returns:
        Sorted replicates; empty if there is nothing to draw from.
    """
    count = len(numerator)
    if not count or not denominator.sum() > 0.0:
        return np.empty(0)
    tau = max(autocorrelation_time(numerator), autocorrelation_time(denominator))
    length = max(1, min(math.ceil(max(count ** (1.0 / 3.0), 3.0 * tau)), count // 4 or 1))
    draws = math.ceil(count / length)
    starts = np.random.default_rng(_SEED).integers(0, count, size=(_REPLICATES, draws))
    top = _circular_sums(numerator, length)[starts].sum(axis=1)
    bottom = _circular_sums(denominator, length)[starts].sum(axis=1)
    return np.sort(top[bottom > 0.0] / bottom[bottom > 0.0])


def interval(replicates: Floats) -> tuple[float, float] | None:
    """Give the central 95 % of sorted bootstrap replicates, None if there are none."""
    if not len(replicates):
        return None
    low, high = np.quantile(replicates, [0.025, 0.975])
    return float(low), float(high)


def chance_at_least(replicates: Floats, bound: float) -> float:
    """Give the fraction of replicates that reach `bound`, held inside 0.05 to 0.95.

    A resample of one run never proves more than 19 in 20.
    """
    if not len(replicates):
        return 0.05
    return min(max(float(np.mean(replicates >= bound)), 0.05), 0.95)


def _circular_sums(values: Floats, length: int) -> Floats:
    joined = np.concatenate([values, values[: length - 1]])
    running = np.concatenate([[0.0], np.cumsum(joined)])
    sums: Floats = running[length:] - running[:-length]
    return sums
