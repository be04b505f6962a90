"""Limits of the family `step_time`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "input_share_warning": Threshold(0.10, "share", FIELD),
    "input_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "h2d_share_warning": Threshold(0.10, "share", FIELD),
    "h2d_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "residual_share_warning": Threshold(0.10, "share", FIELD),
    "residual_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "compute_share_dominates": Threshold(
        0.70, "share", "what is left when input, transfers and the rest all stay under a tenth"
    ),
    "step_loss_floor": Threshold(
        2.0,
        "ms",
        "a DataLoader needs 0.3 to 1 ms of Python per batch whatever the data; twice that is a cause",
    ),
    "loader_floor": Threshold(
        0.3,
        "ms",
        "the least Python time per batch of a DataLoader, which no loader setting removes",
    ),
    "loader_floor_workers": Threshold(
        1.0, "ms", "the same where batches come from worker processes: queue, pickling, hand-over"
    ),
    "bursty_wait": Threshold(
        0.50, "ratio", "median over mean; below it most steps wait little and a few wait long"
    ),
    "run_loss_floor": Threshold(
        60.0, "s", "a minute lost is worth a warning however little each step loses"
    ),
}
