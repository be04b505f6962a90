"""The family `convergence`: whether training gets anywhere, by the values that were logged."""

from typing import Final

from traintrace_analysis.rules.convergence import diverged, instability, no_progress, spikes
from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family(
    "convergence",
    rules=(
        diverged.RULE,
        no_progress.RULE,
        spikes.OF_LOSS,
        spikes.OF_GRADIENTS,
        instability.RULE,
    ),
)
