"""Single slow steps: how many, how far apart, and what they add to the usual step."""

import math
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.levels import FENCE_SD, local_level, local_spread
from traintrace_analysis.step_window import Floats, Ints
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True, eq=False)
class Spikes:
    """What sticks out of a series.

    Attributes:
        places: Indices of the spikes. excess: above the local level on these, 0 elsewhere.
        spread: Robust standard deviation of ln(value / local level): the noise without spikes.
        spacing: Median number of steps from one spike to the next; None under three spikes.
        regular: Share of the distances that lie within a tenth of the median (of two: that equal it); None
            as for `spacing`.
    """

    places: Ints
    excess: Floats
    spread: float
    spacing: float | None
    regular: float | None

    @property
    def periodic(self) -> bool:
        """True if the spikes come at a fixed distance, which chance hardly ever brings about."""
        return self.regular is not None and self.regular >= limit("spike_regularity")


def find_spikes(values: Floats, steps: Ints) -> Spikes:
    """Find values above the upper fence: five spreads over the local level, and at least twice it.

    Args:
        values: Positive and finite, in time order.
        steps: Their step numbers, which have holes where steps are missing.
    """
    level = local_level(values)
    spread = local_spread(values, level)
    fence = math.exp(max(FENCE_SD * spread, math.log(limit("spike_factor"))))
    above = values > level * fence
    places: Ints = np.flatnonzero(above).astype(np.int64)
    excess: Floats = np.where(above, values - level, 0.0)
    distances = np.diff(steps[places])
    if len(distances) < 2:
        return Spikes(places, excess, spread, None, None)
    spacing = float(np.median(distances))
    # Two distances are soon alike within a tenth; that they are equal is rare by chance.
    near = np.abs(distances - spacing) <= (0.1 * spacing if len(distances) > 2 else 0.0)
    return Spikes(places, excess, spread, spacing, float(near.mean()))
