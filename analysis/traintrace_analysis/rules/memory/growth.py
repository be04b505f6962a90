"""Whether a series of memory readings keeps growing, and how fast."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit

_PARTS: Final = 8


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory that grows to the very end.

    Attributes:
        bytes_per_step: Median of the slopes between all parts of the series (Theil and Sen).
        grown_bytes: What that makes from the first to the last reading.
        last_bytes: Level of the last part.
    """

    bytes_per_step: float
    grown_bytes: float
    last_bytes: float


def steady_growth(steps: Floats, values: Floats) -> Growth | None:
    """Find growth that goes on from the first to the last eighth of the readings.

    The readings are reduced to the medians of eight parts, which no single peak moves. Growth that
    saturates fails at the end, a jump fails everywhere else, and a sawtooth falls in between.

    Args:
        steps: Step of each reading, ascending; may be a fraction.
        values: Bytes, all finite; short steps share a reading, so there may be few.

    Returns:
        None if it does not grow, or stopped, or if there are too few readings to tell.
    """
    if len(values) < limit("creep_readings_minimum"):
        return None
    size = len(values) // _PARTS
    # The first and the last part tell at once that most runs do not grow.
    if np.median(values[-size:]) - np.median(values[:size]) < limit("creep_growth_floor"):
        return None
    parts = np.array_split(np.arange(len(values)), _PARTS)
    level = np.asarray([np.median(values[part]) for part in parts])
    place = np.asarray([np.median(steps[part]) for part in parts])
    earlier, later = np.triu_indices(_PARTS, 1)
    rise, run = level[later] - level[earlier], place[later] - place[earlier]
    if not (run > 0.0).all():
        return None
    slope = float(np.median(rise / run))
    grown = slope * float(steps[-1] - steps[0])
    floor = max(limit("creep_growth_floor"), limit("creep_growth_share") * float(np.median(level)))
    if grown < floor or (rise > 0.0).mean() < limit("creep_rising_pairs"):
        return None
    pace = np.diff(level) / np.diff(place) / slope
    quarters = np.diff(level[0::2] + level[1::2]) / np.diff(place[0::2] + place[1::2]) / slope
    least = limit("creep_pace_minimum")
    if pace[-1] < least or quarters.min() < least or quarters[-1] < limit("creep_pace_at_end"):
        return None
    away = level - slope * place
    spread = float(np.sqrt(np.sum((away - np.median(away)) ** 2) / (_PARTS - 2)))
    if grown < limit("creep_clearness") * spread:
        return None
    return Growth(slope, grown, float(level[-1]))
