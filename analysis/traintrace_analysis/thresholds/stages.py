"""Limits of the family `stages`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "stage_services_minimum": Threshold(
        20,
        "count",
        "an interval from fewer than twenty independent values is refused everywhere",
    ),
    "stage_warmup_ratio": Threshold(
        3.0,
        "ratio",
        "a first service over the longest later one of its stage; of exponential service times, 20 later ones, one in "
        "2,000 is so long, and of evener ones none",
    ),
    "stage_near_balance": Threshold(
        0.03,
        "share",
        "of demand; the pipeline speeds up by no more than that before the next stage limits it",
    ),
    "stage_wait_share": Threshold(
        0.05,
        "share",
        "of a stage's time; measured with threads: one that limits by far waits 0 to 1 %",
    ),
    "stage_worth_asking": Threshold(
        0.50,
        "ratio",
        "of the largest demand; simulated, at 0.7 and queues of one item: a stage that is 20 % faster wins 0.1 % of "
        "throughput where service times vary by 30 %, 1.8 % by 50 %, 5.9 % by 100 %",
    ),
    "stage_replay_tolerance": Threshold(
        0.05,
        "share",
        "of throughput; within it what-ifs of real threads came within 3 points of the measured change",
    ),
    "stage_gain_warning": Threshold(
        0.05,
        "share",
        "of throughput; under it the what-if's own error of 3 points may be all of it",
    ),
    "stage_gain_critical": Threshold(
        0.25, "share", f"of throughput, that is a fifth less time; {FIELD_CRITICAL}"
    ),
    "stage_confidence": Threshold(
        0.90,
        "share",
        "chance that the stage needs most time per item; simulated, 900 runs of three equal stages, 60 to 400 "
        "services: two were named",
    ),
    "stage_starved_warning": Threshold(0.10, "share", f"of the stage's time; {FIELD}"),
    "stage_blocked_warning": Threshold(0.10, "share", f"of the stage's time; {FIELD}"),
    "stage_queue_gain": Threshold(
        0.05,
        "share",
        "of throughput; under it the what-if's own error of 3 points may be all of it",
    ),
    "stage_rest_share": Threshold(
        0.05, "share", "of wall time; what is left of a cause under that is told and not named"
    ),
    "queue_balance": Threshold(
        0.02,
        "share",
        "of the time; a moment is told late by what the interpreter takes to switch threads, 5 ms",
    ),
    "queue_little": Threshold(
        0.10,
        "share",
        "of mean length; mean length and residence come from the same record and differ only by what it lacks",
    ),
    "stage_cores_in_use": Threshold(
        0.90, "share", "of the allowed cores; as for workers of a loader"
    ),
    "stage_threads_busy": Threshold(
        1.5,
        "ratio",
        "threads busy at a time; with fewer, taking turns holds up less than half of one",
    ),
    "stage_interpreter_low": Threshold(
        0.80,
        "ratio",
        "cores; an interpreter runs one thread at a time, and a fifth of a core goes to others",
    ),
    "stage_interpreter_high": Threshold(
        1.15, "ratio", "cores; more than one means that much runs beside the interpreter"
    ),
}
