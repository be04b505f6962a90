"""Noise as step times have it: neighbours resemble each other."""

import numpy as np

from tests.scenarios.record import Floats


def correlated(
    random: np.random.Generator, shape: tuple[int, int], phi: float, sd: float
) -> Floats:
    """Give AR(1) noise of standard deviation `sd` whose neighbours correlate by `phi`."""
    fresh = random.standard_normal(shape) * sd * np.sqrt(1.0 - phi**2)
    values = np.empty(shape)
    values[:, 0] = random.standard_normal(shape[0]) * sd
    for index in range(1, shape[1]):
        values[:, index] = phi * values[:, index - 1] + fresh[:, index]
    return values
