"""Limits of the advice for runs that wait for their batches."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

_MEASURED: Final = "measured with torch 2.13 on 2 cores, items that cost nothing: {}"

LIMITS: Final[Mapping[str, Threshold]] = {
    "handover_rate": Threshold(
        1.4e9,
        "bytes/s",
        _MEASURED.format(
            "one worker hands over 0.9, 1.4 and 1.5 GB/s in batches of 1, 10 and 80 MB"
        ),
    ),
    "handover_fixed": Threshold(
        0.7, "ms", _MEASURED.format("what a worker needs for a batch of 0.1 MB, whatever is in it")
    ),
    "handover_share": Threshold(
        0.5, "share", "of a worker's time for a batch; the larger part names what limits"
    ),
    "handover_total_rate": Threshold(
        2.4e9,
        "bytes/s",
        _MEASURED.format("two workers together reach no more with any size of batch"),
    ),
    "worker_headroom": Threshold(
        1.1, "ratio", "a queue that is served at exactly its own rate never runs empty nor full"
    ),
    "cpu_bound_worker": Threshold(
        0.5, "ratio", "cores that a busy worker uses; in the middle between waiting and computing"
    ),
    "cores_to_be_had": Threshold(
        0.5,
        "share",
        "measured on 2 crowded cores: a run that used a fifth of them got half with four workers more",
    ),
    "cores_in_use": Threshold(
        0.9,
        "share",
        "of the cores allowed; schedulers leave a tenth idle while threads change places",
    ),
}
