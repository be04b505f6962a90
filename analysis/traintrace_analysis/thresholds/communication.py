"""Limits of the family `communication`, and of what is read from traces."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "exposed_comm_share_warning": Threshold(0.10, "share", FIELD),
    "exposed_comm_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "comm_bound_share": Threshold(
        0.33,
        "share",
        "of step time: from a third on hiding it behind the backward pass, itself about half of a step's "
        "compute, cannot win it all back, and what is sent has to become less",
    ),
    "late_rank_share": Threshold(
        0.50,
        "share",
        "of exposed communication; if more of it is waiting for late ranks, these are the cause",
    ),
    "core_wait_ratio": Threshold(
        0.25,
        "ratio",
        "time that a training thread wanted a core and had none, over all that it wanted one: from a quarter on "
        "what sends the data takes a third longer or more; measured on 2 busy cores with gloo: 0.24 where 2 ranks "
        "waited 2 ms for 400 kB, 0.40 to 0.54 where 4 ranks waited 5 ms for it, 0.6 to 0.8 and 12 ms for 50 kB",
    ),
    "pipeline_excess_share": Threshold(
        0.05,
        "share",
        "of the ranks' time beyond the schedule's least bubble; passes are not all equally long and sending "
        "takes time, which costs a well balanced pipeline a few percent",
    ),
    "launches_known": Threshold(
        0.95,
        "share",
        "of a device's activities; with fewer known launches idle time cannot be split",
    ),
    "trace_confidence": Threshold(
        0.90, "share", "sums of a trace are exact; what its few steps say of the run is less so"
    ),
}
