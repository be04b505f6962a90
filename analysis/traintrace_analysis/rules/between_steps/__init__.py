"""The family `between_steps`: what the time between steps goes to."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.rules.between_steps import account_cost, epoch_start
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.thresholds import limit
from traintrace_analysis.unexamined import RECURRING
from traintrace_analysis.wording import percent


def _doubt(context: Context) -> str:
    """Name the largest account that no rule examines, if they take much of the run together."""
    totals = context.rank.totals
    spent = {name: totals.account_ns.get(name, 0) for name in RECURRING}
    share = sum(spent.values()) / totals.wall_ns if totals.wall_ns else 0.0
    if share < limit("unjudged_between_share"):
        return ""
    largest = max(spent, key=lambda name: spent[name])
    return f"{percent(share)} of the run is in accounts that no rule examines, most of it in {largest}."


FAMILY: Final = Family(
    "between_steps",
    rules=(epoch_start.RULE, account_cost.EVALUATION, account_cost.CHECKPOINT),
    doubt=_doubt,
)
