"""Which of a driver's reasons for a lower clock mean that a device is held back."""

from typing import Final

from traintrace.readings import DeviceReading

# Not held back: there is no work, or somebody asked for that clock.
_HARMLESS: Final = frozenset(
    ("", "none", "gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost")
)
POWER_CAP: Final = "sw_power_cap"
"""A device at full load meets its power limit: that is its speed, not a fault."""


def held_back(reading: DeviceReading) -> frozenset[str] | None:
    """Give the reasons for which a device's clock is held back; None if they are not known."""
    if reading.throttle_reasons is None:
        return None
    return frozenset(word.strip() for word in reading.throttle_reasons.split(",")) - _HARMLESS
