"""The level that a series has around each step, and what sticks out above it."""

import math

import numpy as np

from traintrace_analysis.statistics import MAD_TO_SD
from traintrace_analysis.step_window import Floats

_NEIGHBOURS = 21  # steps of the running median; a slow stretch of ten steps is still no level
FENCE_SD = 5.0  # as in `winsorise`


def local_level(values: Floats) -> Floats:
    """Give the running median over 21 steps; its trend goes on for the ten steps at either end.

    It follows drift and slow waves, and leaves out any slow stretch of ten steps or less.
    """
    width = min(_NEIGHBOURS, len(values) - 1 + len(values) % 2)
    if width < 3:
        return np.full(len(values), np.median(values)) if len(values) else values
    half = width // 2
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    far = min(width, len(inner) - 1)
    before = _carried_on(inner[0], inner[0] - inner[far], far, half)[::-1]
    after = _carried_on(
        inner[-1], inner[-1] - inner[-1 - far], far, len(values) - half - len(inner)
    )
    level: Floats = np.concatenate([before, inner, after])
    return level


def _carried_on(last: float, change: float, steps: int, count: int) -> Floats:
    """Go on from `last` for `count` values with the change that was seen over `steps`, within a half."""
    slope = change / steps if steps else 0.0
    return np.clip(last + slope * np.arange(1, count + 1), 0.5 * last, 1.5 * last)


def local_spread(values: Floats, level: Floats) -> float:
    """Give the robust standard deviation of ln(value / level), blind to spikes and to drift.

    Both are positive and equally long.
    """
    logs = np.log(values / level)
    return MAD_TO_SD * float(np.median(np.abs(logs - np.median(logs)))) if len(logs) else 0.0


def without_spikes(values: Floats) -> Floats:
    """Pull what sticks out of its surroundings, up or down, to five spreads from the local level.

    Unlike `winsorise` this leaves a drift alone, however far it goes, and keeps the values' unit.
    """
    level = local_level(values)
    reach = math.exp(FENCE_SD * local_spread(values, level))
    pulled: Floats = np.clip(values, level / reach, level * reach) if reach > 1.0 else level
    return pulled
