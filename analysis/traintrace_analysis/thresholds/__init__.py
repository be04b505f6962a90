"""Every limit that a finding or a verdict rests on, in one table with its unit and its reason."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds import (
    between_steps,
    communication,
    comparison,
    convergence,
    efficiency,
    input_supply,
    judging,
    memory,
    process,
    ranks,
    stages,
    step_time,
    system,
    warmup,
)
from traintrace_analysis.thresholds.threshold import Threshold

__all__ = ["BY_FAMILY", "TABLE", "Threshold", "limit"]

BY_FAMILY: Final[Mapping[str, Mapping[str, Threshold]]] = {
    "judging": judging.LIMITS,
    "warmup": warmup.LIMITS,
    "step_time": {**step_time.LIMITS, **input_supply.LIMITS},
    "between_steps": between_steps.LIMITS,
    "ranks": ranks.LIMITS,
    "communication": communication.LIMITS,
    "memory": memory.LIMITS,
    "system": system.LIMITS,
    "process": process.LIMITS,
    "convergence": convergence.LIMITS,
    "stages": stages.LIMITS,
    "efficiency": efficiency.LIMITS,
    "comparison": comparison.LIMITS,
}
"""The limits of each family of findings; "judging" and "warmup" hold for all of them,
"comparison" for two sides of runs."""

TABLE: Final[Mapping[str, Threshold]] = {
    name: entry for limits in BY_FAMILY.values() for name, entry in limits.items()
}


def limit(name: str) -> float:
    """Give the value of the threshold called `name`.

    Raises:
        KeyError: The table has no such threshold.
    """
    return TABLE[name].value
