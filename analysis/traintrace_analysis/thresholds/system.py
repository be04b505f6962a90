"""Limits of the family `system`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "machine_readings_minimum": Threshold(
        3, "readings", "in the steady steps; fewer may all lie in one odd moment"
    ),
    "utilisation_low": Threshold(
        0.50, "share", "of the time; PyTorch's profiler plugin for TensorBoard advises below it"
    ),
    "between_share_explains": Threshold(
        0.10,
        "share",
        "of the steady time between steps; as for the phases, it is a cause of its own",
    ),
    "temperature_margin": Threshold(
        5.0, "degC", "below the slowdown point; drivers step the clock down in the last few degrees"
    ),
    "temperature_share": Threshold(
        0.10, "share", "of the readings; a single hot moment slows nothing down"
    ),
    "throttled_share": Threshold(0.10, "share", FIELD),
    "throttled_clock": Threshold(
        0.95,
        "ratio",
        "of the highest clock; clocks move by 15 MHz steps, 1 % of it, without a limit",
    ),
    "throttled_steps_minimum": Threshold(
        20, "steps", "on each side of the comparison, as for any interval"
    ),
    "throttled_significance": Threshold(
        3.0,
        "ratio",
        "standard errors by which throttled steps must be slower (one in 700 by chance)",
    ),
    "throttled_slower": Threshold(
        0.03,
        "ratio",
        "the floor of effects between ranks as well: less is not worth a person's time",
    ),
    "power_near_limit": Threshold(
        0.95, "ratio", "of the enforced limit; the governor holds a capped device 1 to 4 % below it"
    ),
    "ram_share_warning": Threshold(
        0.90, "share", "of RAM; the kernel begins to drop the page cache that loaders read through"
    ),
    "ram_share_critical": Threshold(
        0.97, "share", "of RAM; the kernel kills processes when the rest is gone"
    ),
}
