"""The family `step_time`: what the time inside a step goes to."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.rules.step_time import (
    backward_heavy,
    compute_bound,
    drift,
    h2d_bound,
    input_bound,
    jitter,
    length_variance,
    optimizer_heavy,
    residual_heavy,
    warmup_cost,
)
from traintrace_analysis.sufficiency import missing_phases, missing_reason


def _doubt(context: Context) -> str:
    """Name the phases that were not seen: the cause may hide in them."""
    missing = missing_phases(context.metrics)
    return missing_reason(context.window, missing) if missing else ""


FAMILY: Final = Family(
    "step_time",
    rules=(
        input_bound.RULE,
        h2d_bound.RULE,
        compute_bound.RULE,
        residual_heavy.RULE,
        optimizer_heavy.RULE,
        backward_heavy.RULE,
        jitter.RULE,
        drift.RULE,
        warmup_cost.RULE,
        length_variance.RULE,
    ),
    doubt=_doubt,
)
