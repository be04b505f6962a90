"""Limits of the family `efficiency`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "mfu_low": Threshold(
        0.30,
        "share",
        "of the device's peak, in steady steps; published for large models: 38 to 43 % (Llama 3, 2024), 46 % "
        "(PaLM, 2022), 55 % (MegaScale, 2024), so there is something to win below it",
    ),
    "compute_of_peak_low": Threshold(
        0.15,
        "share",
        "of the device's peak, in compute alone; half of `mfu_low`, so that a model whose layers are small "
        "or bound by memory is not blamed for being one",
    ),
    "budget_line_large": Threshold(
        0.20,
        "share",
        "of wall time, as for what a verdict leaves out: from a fifth on a line is named",
    ),
    "mfu_winnable": Threshold(
        0.60,
        "ratio",
        "chance that compute far from its peak can be brought nearer without another model; of the ways that "
        "help (batch, format, fused kernels, compilation) a run usually lacks one",
    ),
}
