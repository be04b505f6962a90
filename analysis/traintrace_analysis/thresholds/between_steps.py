"""Limits of the family `between_steps`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "epoch_start_share_warning": Threshold(
        0.05, "share", "of wall time; half the limit of a phase, since one setting removes it"
    ),
    "epoch_start_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "evaluation_share_warning": Threshold(
        0.10,
        "share",
        "of wall time; evaluation is work that was asked for, so the phase limit holds",
    ),
    "evaluation_share_critical": Threshold(
        0.30, "share", "of wall time; evaluation that takes a third of a run is rarely intended"
    ),
    "checkpoint_share_warning": Threshold(
        0.05, "share", "of wall time; writing can move to another thread, so it is avoidable"
    ),
    "checkpoint_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "between_loss_floor": Threshold(
        0.5, "s", "less than half a second in a whole run is not worth a person's time"
    ),
    "unjudged_between_share": Threshold(
        0.10, "share", "of wall time; as for the phases: more than a tenth may hide a cause"
    ),
}
