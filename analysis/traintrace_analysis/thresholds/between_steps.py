"""Limits of the family `between_steps`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, FIELD_CRITICAL, Threshold

_AVOIDABLE: Final = "of wall time; half the limit of a phase, since {}"

LIMITS: Final[Mapping[str, Threshold]] = {
    "epoch_start_share_warning": Threshold(
        0.05, "share", _AVOIDABLE.format("one setting removes it")
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
    "logging_share_warning": Threshold(
        0.05, "share", _AVOIDABLE.format("logging can move to another thread")
    ),
    "logging_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "gap_share_warning": Threshold(0.10, "share", f"of wall time; {FIELD}"),
    "gap_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "gc_share_warning": Threshold(
        0.05, "share", _AVOIDABLE.format("gc.freeze() before the loop removes most of it")
    ),
    "gc_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "recompiles_share_warning": Threshold(
        0.05, "share", _AVOIDABLE.format("a run with fixed shapes compiles in its warm-up only")
    ),
    "recompiles_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "between_loss_floor": Threshold(
        0.5, "s", "less than half a second in a whole run is not worth a person's time"
    ),
    "unjudged_between_share": Threshold(
        0.10, "share", "of wall time; as for the phases: more than a tenth may hide a cause"
    ),
}
