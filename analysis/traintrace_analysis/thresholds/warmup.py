"""Limits of the search for the warm-up."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "mser_batch": Threshold(5, "steps", "MSER-5: White, Cobb and Spratt 2000"),
    "mser_tolerance": Threshold(
        0.05,
        "ratio",
        "simulated, 500 steps: lowers false cuts from 2-17 % to 0-7 % and keeps true ones in place",
    ),
    "mser_short_series": Threshold(
        50, "steps", "under ten batches of five MSER has nothing to choose from; single steps then"
    ),
    "warmup_excess": Threshold(
        0.10, "log", "a start that is less than 10 % slower than the rest is not called a warm-up"
    ),
    "warmup_significance": Threshold(
        5.0,
        "ratio",
        "standard errors by which a start must be slower than the rest; simulated, 40 to 500 steps: "
        "no false cut for iid, periodic and AR(.5) steps, 0-2 % for AR(.9)",
    ),
    "warmup_search_start": Threshold(
        100, "steps", "a window that begins later does not hold the start of the process"
    ),
    "compile_mark_gap": Threshold(
        10, "steps", "graph compilations of one start follow each other closely; later ones are not"
    ),
}
