"""What tests of tracers need: a clock that is told the time, and a device with known durations."""

from traintrace.testing.clock import FakeClock
from traintrace.testing.simulated_device import SimulatedDevice, SimulatedEvent

__all__ = ["FakeClock", "SimulatedDevice", "SimulatedEvent"]
