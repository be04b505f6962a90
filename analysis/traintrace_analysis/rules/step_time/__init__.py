"""The family `step_time`: what the time inside a step goes to."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.rules.step_time import (
    compute_bound,
    h2d_bound,
    input_bound,
    residual_heavy,
)
from traintrace_analysis.sufficiency import missing_phases, missing_reason


def _doubt(context: Context) -> str:
    """Name the phases that were not seen: the cause may hide in them."""
    missing = missing_phases(context.metrics)
    return missing_reason(context.window, missing) if missing else ""


FAMILY: Final = Family(
    "step_time",
    rules=(input_bound.RULE, h2d_bound.RULE, residual_heavy.RULE, compute_bound.RULE),
    doubt=_doubt,
)
