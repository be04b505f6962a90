"""Limits of the comparison of runs and of the gates; `benchmarks/gate` measures what they lead to."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "comparison_error": Threshold(
        0.01, "share", "one comparison in a hundred of the same code may be called a change"
    ),
    "equivalence_error": Threshold(
        0.05, "share", "per side, two one-sided tests: Schuirmann 1987, the custom in equivalence"
    ),
    "detection_power": Threshold(
        0.80, "share", "the smallest detectable change is one found 8 times in 10: Cohen 1988"
    ),
    "assumed_run_noise": Threshold(
        0.03,
        "log",
        "run to run, where it was not measured: shared CI runners differ by 2.7 % (CodSpeed's data)",
    ),
    "waiting_noise": Threshold(
        1.0 / 3.0,
        "share",
        "of what waiting for a core adds to a step; measured: runs of one loop that waited 20 to 50 % of "
        "their time differed by 8 % without it, and none of 72 pairs is called a change",
    ),
    "change_minimum": Threshold(
        0.01, "share", "of the step time; a smaller change is within what placement in memory does"
    ),
    "change_minimum_ms": Threshold(
        0.02, "ms", "what tracing costs a step; two levels of tracing differ by as much"
    ),
    "equivalence_margin": Threshold(
        0.03,
        "share",
        "of the step time; simulated, at 3 % noise between runs 12 pairs prove it in 8 cases of 10",
    ),
    "phase_minimum": Threshold(
        0.005, "share", "of the step time; half a percent of a step can be a fifth of a phase"
    ),
    "phase_change_minimum": Threshold(
        0.01, "share", "of the phase; as for the step, a smaller change says nothing of the code"
    ),
    "moved_remainder": Threshold(
        0.25, "share", "of the larger part; what does not cancel is a change and not a move"
    ),
    "blame_alone": Threshold(
        0.80,
        "share",
        "of the change of the step; as for ranks, a cause that covers four fifths is the cause",
    ),
    "figure_change": Threshold(
        0.10, "share", "memory and utilisation are read now and then; a tenth is field practice"
    ),
    "steps_worth_minimum": Threshold(
        4,
        "steps",
        "independent ones, with one run a side; of fewer, Student's t has no degrees of freedom to speak of",
    ),
    "length_ratio": Threshold(
        1.25, "ratio", "runs whose lengths differ by more are compared over their common beginning"
    ),
    "own_time_error": Threshold(
        0.0025,
        "share",
        "a quarter of comparison_error: what asking for the time without waits for a CPU may add to the false "
        "alarms, on a busy machine alone",
    ),
    "long_steps_error": Threshold(
        0.0025,
        "share",
        "a quarter of comparison_error: what asking for the mean as well may add to the false alarms",
    ),
    "long_steps_history_error": Threshold(
        0.00001,
        "share",
        "means with long steps are skewed, which cancels between pairs and not against a baseline; simulated: "
        "at 0.0025 3.6 % of equal runs fail",
    ),
    "long_steps_blocks": Threshold(
        5,
        "count",
        "blocks of a single run; the spread of fewer means says little of how often steps are long",
    ),
    "tail_disagreement": Threshold(
        0.02, "share", "between the changes of the mean and of the usual step: outliers decide"
    ),
    "gate_mean_share": Threshold(
        0.2,
        "share",
        "of the gate's false alarms, for the mean step; simulated: the usual step finds 5 % as often within a "
        "hundredth, and both together stay under 1 %",
    ),
    "gate_alpha_4_pairs": Threshold(
        0.0005, "share", "simulated with the next three: together at most 1 % false alarms"
    ),
    "gate_alpha_6_pairs": Threshold(0.0015, "share", "as for four pairs"),
    "gate_alpha_9_pairs": Threshold(0.003, "share", "as for four pairs"),
    "gate_alpha_12_pairs": Threshold(0.005, "share", "as for four pairs"),
    "history_error_straying": Threshold(
        0.07,
        "share",
        "simulated: so often three new runs of the same code fail where one run in five has 10 % of long steps; "
        "2 % where runs differ by Student's t with 3 degrees of freedom, 4 % where they are skewed",
    ),
    "history_runs_minimum": Threshold(
        10,
        "count",
        "simulated: at 1 % noise between runs one that is 5 % slower is found in 9 cases of 10",
    ),
    "calibration_runs_minimum": Threshold(
        6, "count", "their spread is known within a factor of two and a half (chi-square, 95 %)"
    ),
}
