"""Limits of the family `process`.

Measured: steps of a small network on 2 cores (torch 2.13), 6.8 ms with 2 threads on an idle machine. Share of
the time that the training thread was ready to run and had no core, and length of a step: 2 threads beside one
busy process 0.32, 16 ms; beside two 0.60, 56 ms; 2 ranks of 2 threads each 0.66, 83 ms; 2 threads and one
loader worker 0.48, 37 ms; 4 threads alone 0.15, 8.3 ms; 8 threads alone 0.33, 8.1 ms; nobody else 0.00.
"""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "run_queue_share_warning": Threshold(
        0.10,
        "share",
        f"of the steady time; {FIELD}; measured on 2 cores: 0.00 to 0.03 on an idle machine, 0.12 when a step took "
        "9.6 ms instead of 6.8",
    ),
    "run_queue_share_critical": Threshold(
        0.30,
        "share",
        "measured on 2 cores: at 0.32 a step of 6.8 ms took 16, since threads spin while a partner has no core",
    ),
    "throttled_ratio": Threshold(
        0.50, "ratio", "of the wait for a core; from half on the quota is the cause of most of it"
    ),
    "other_cores_share": Threshold(
        0.25,
        "share",
        "of the cores that the run may use; measured on 2 cores: one busy neighbour takes 0.33 to 0.5, daemons and readings under 0.1",
    ),
    "cpu_share_high": Threshold(
        0.95,
        "share",
        "of the allowed cores; measured on 2 cores: training with as many threads reads 0.99",
    ),
    "rss_share_warning": Threshold(
        0.80, "share", "of RAM by one rank; the next worker or copy of the data does not fit"
    ),
    "rss_share_critical": Threshold(
        0.97, "share", "of RAM; the kernel kills processes when the rest is gone"
    ),
}
