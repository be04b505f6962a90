"""Limits that hold for every family: how much data, how sure, how much unexplained."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "waiting_share_unexplained": Threshold(
        0.10, "share", "as for the phases; above it a step cannot be called balanced"
    ),
    "unexamined_share": Threshold(
        0.20, "share", "of wall time; from a fifth on a verdict names what it does not cover"
    ),
    "unexamined_majority": Threshold(
        0.50, "share", "of wall time; no verdict of balance is given over less than half of a run"
    ),
    "steady_steps_minimum": Threshold(
        10, "steps", "below ten steps a mean share has no usable interval even without correlation"
    ),
    "effective_steps_for_interval": Threshold(
        20,
        "steps",
        "an interval from fewer independent steps is refused (Student's t is 5 % wider)",
    ),
    "coverage_minimum": Threshold(
        0.95, "share", "a signal missing on more than one step in twenty may be missing for a cause"
    ),
    "confidence_to_name": Threshold(
        0.50, "share", "below it the opposite is as likely, so the cause is not named"
    ),
    "confidence_of_critical": Threshold(
        0.90, "share", "chance that the critical limit is reached; a wide interval warns at most"
    ),
    "host_clock_input_trust": Threshold(
        0.80, "ratio", "on the host clock of an accelerator a wait may hide behind queued kernels"
    ),
    "host_clock_sync_trust": Threshold(
        0.50, "ratio", "on the host clock of an accelerator any other host time may be a moved sync"
    ),
}
