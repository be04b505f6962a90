"""Sets of metrics that kinds of runs do not have, and states of families that nothing is wrong with."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.findings import State

# Accounts that no scenario has unless it says so.
RARE: Final = frozenset({"communication", "clip", "callbacks", "user"})
ONE_CPU: Final = RARE | {"h2d", "gradient_sync"}
CPUS: Final = RARE | {"h2d"}
ONE_GPU: Final = RARE | {"gradient_sync"}
GPUS: Final = RARE

CLEAN_ONE: Final[Mapping[str, State]] = {
    "step_time": "clean",
    "between_steps": "clean",
    "ranks": "not_measured",
    "memory": "clean",
    "system": "clean",
    "process": "clean",
}
CLEAN: Final[Mapping[str, State]] = {**CLEAN_ONE, "ranks": "clean"}
NO_SAMPLERS: Final[Mapping[str, State]] = {"system": "not_measured", "process": "not_measured"}
