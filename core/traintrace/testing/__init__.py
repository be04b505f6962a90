"""What tests of tracers need: a clock that is told the time, a device with known durations, a recipe.

The conformance suite is `python -m traintrace.testing.conformance`; `traintrace.testing.recipe` holds the
parts that integrations train, and is the only module here that loads torch.
"""

from traintrace.testing.clock import FakeClock
from traintrace.testing.integration import Integration
from traintrace.testing.settings import Delays, Recipe
from traintrace.testing.simulated_device import SimulatedDevice, SimulatedEvent
from traintrace.testing.truth import Truth

__all__ = [
    "Delays",
    "FakeClock",
    "Integration",
    "Recipe",
    "SimulatedDevice",
    "SimulatedEvent",
    "Truth",
]
