"""The family `between_steps`: what the time between steps goes to, and pauses that hit anywhere."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.rules.between_steps import (
    account_cost,
    epoch_start,
    gap,
    gc_pauses,
    recompiles,
)
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.thresholds import limit
from traintrace_analysis.unexamined import recurring_ns
from traintrace_analysis.wording import percent


def _doubt(context: Context) -> str:
    """Name the largest account that no rule examines, if they take much of the run together."""
    totals = context.rank.totals
    spent = recurring_ns(totals)
    share = sum(spent.values()) / totals.wall_ns if totals.wall_ns else 0.0
    if share < limit("unjudged_between_share"):
        return ""
    largest = max(spent, key=lambda name: spent[name])
    return f"{percent(share)} of the run is in accounts that no rule examines, most of it in {largest}."


FAMILY: Final = Family(
    "between_steps",
    rules=(
        epoch_start.RULE,
        account_cost.EVALUATION,
        account_cost.CHECKPOINT,
        account_cost.LOGGING,
        gc_pauses.RULE,
        recompiles.RULE,
        gap.RULE,
    ),
    doubt=_doubt,
)
