"""Every limit that a finding or a verdict rests on, in one table with its unit and its reason."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds import (
    between_steps,
    judging,
    memory,
    process,
    ranks,
    step_time,
    system,
    warmup,
)
from traintrace_analysis.thresholds.threshold import Threshold

__all__ = ["TABLE", "Threshold", "limit"]

TABLE: Final[Mapping[str, Threshold]] = {
    **judging.LIMITS,
    **warmup.LIMITS,
    **step_time.LIMITS,
    **between_steps.LIMITS,
    **ranks.LIMITS,
    **memory.LIMITS,
    **system.LIMITS,
    **process.LIMITS,
}


def limit(name: str) -> float:
    """Give the value of the threshold called `name`.

    Raises:
        KeyError: The table has no such threshold.
    """
    return TABLE[name].value
