"""The catalogue of scenarios: every promise of the analysis that a whole run can show."""

from typing import Final

from tests.scenarios.catalogue import (
    between_steps,
    contract,
    devices,
    lenses,
    memory,
    mixtures,
    nothing_wrong,
    processes,
    ranks,
    step_time,
    unusual,
)
from tests.scenarios.record import Scenario

CATALOGUE: Final[tuple[Scenario, ...]] = (
    *contract.SCENARIOS,
    *nothing_wrong.SCENARIOS,
    *step_time.SCENARIOS,
    *between_steps.SCENARIOS,
    *ranks.SCENARIOS,
    *memory.SCENARIOS,
    *devices.SCENARIOS,
    *processes.SCENARIOS,
    *lenses.SCENARIOS,
    *mixtures.SCENARIOS,
    *unusual.SCENARIOS,
)
BY_NAME: Final = {scenario.name: scenario for scenario in CATALOGUE}
