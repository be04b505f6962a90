"""How far each value of a series lies above, or below, what is usual on both sides of it."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.statistics import MAD_TO_SD
from traintrace_analysis.step_window import Floats, Ints

# Values on either side whose median is what is usual; under a third of so many in a row may stick out.
WIDTH: Final = 64
_NARROW: Final = 32  # where there are few
SHORTEST: Final = 2 * _NARROW
_ENOUGH: Final = 4 * WIDTH
_STRIDES: Final = 4  # windows in the width of one
_OUT: Final = 4.0  # spreads
_TREND: Final = 25  # windows that tell the trend: six widths
# Of the usual spread: in a calm stretch the noise of a run is not nothing.
_LEAST_OF_USUAL: Final = 0.5
_LEAST_OF_LEVEL: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """Every value against its surroundings, in spreads: robust standard deviations.

    Attributes:
        places: Indices of the values that have enough before them to be judged.
        above: Above the higher of two levels: the medians of the values before and after, each carried on
            along the trend of the run there. So neither a fall nor a new level sticks out, only what comes
            back. below: under the lower one.
        level: The higher level, in the unit of the series.
    """

    places: Ints
    above: Floats
    below: Floats
    level: Floats


def surroundings(values: Floats) -> Surroundings | None:
    """Compare each value with what surrounds it; None under 64 values."""
    if len(values) < SHORTEST:
        return None
    around = _against(values, values)
    out = around.above >= _OUT
    if not out.any():
        return around
    # What sticks out for many values would pass for usual around itself: look again without it.
    usual = values.copy()
    usual[around.places[out]] = around.level[out]
    return _against(values, usual)


def _against(values: Floats, usual: Floats) -> Surroundings:
    count = len(values)
    width = WIDTH if count >= _ENOUGH else _NARROW
    stride = width // _STRIDES
    windows = np.lib.stride_tricks.sliding_window_view(usual, width)[::stride]
    medians = np.median(windows, axis=1)
    slopes = _slopes(medians, stride)
    spreads = _spreads(windows, medians, slopes)
    places = np.arange(width, count)
    last = len(medians) - 1
    before = np.minimum((places - width) // stride, last)
    after = np.minimum(-(-(places + 1) // stride), last)
    middle = (width - 1) / 2.0
    slope = slopes[np.minimum(places // stride, last)]
    carried = medians[before] + slope * (places - before * stride - middle)
    back = medians[after] + slope * (places - after * stride - middle)
    level, floor = np.maximum(carried, back), np.minimum(carried, back)
    spread = np.maximum(spreads[before], spreads[after])
    spread = np.maximum(spread, _LEAST_OF_USUAL * float(np.median(spread)))
    spread = np.maximum(spread, _LEAST_OF_LEVEL * np.maximum(np.abs(level), 1e-300))
    return Surroundings(
        places=places.astype(np.int64),
        above=(values[places] - level) / spread,
        below=(floor - values[places]) / spread,
        level=level,
    )


def _slopes(medians: Floats, stride: int) -> Floats:
    """Give the trend per value at each window: the median change over the windows around, so no hump tells it."""
    changes = np.diff(medians) / stride
    if not len(changes):
        return np.zeros(len(medians))
    reach = min(_TREND, len(changes))
    padded = np.pad(changes, (reach // 2, reach - reach // 2), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, reach)
    slopes: Floats = np.median(around, axis=1)[: len(medians)]
    return slopes


def _spreads(windows: Floats, medians: Floats, slopes: Floats) -> Floats:
    """Give the robust standard deviation in each window about its trend."""
    places = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2.0
    left = np.abs(windows - medians[:, None] - slopes[:, None] * places)
    spreads: Floats = MAD_TO_SD * np.median(left, axis=1)
    return spreads
