"""A large line of the budget whose seconds no finding names."""

from typing import Final

from traintrace.accounts import GROUPS
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.efficiency import lines as names
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.efficiency.low_mfu import missing_mfu
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.sufficiency import missing_phases
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, seconds

# Host time in which an accelerator may be at work on what was queued before.
_MAY_OVERLAP: Final = frozenset(
    ("input_wait", "h2d", names.EXPOSED, "logging", "gap", *GROUPS["residual"])
)


def recoverable(context: Context) -> list[Finding]:
    """Find the largest line that is neither compute nor paid once, if it is a fifth of the run.

    Whether another finding names it is settled when all are known; this one always costs nothing.
    """
    budget = context.efficiency
    if budget is None:
        return []
    left_out = {*names.COMPUTE_LINES, *names.PAID_ONCE}
    if context.window.accelerator:
        left_out |= _MAY_OVERLAP
    if missing_phases(context.metrics):
        left_out |= {*GROUPS["residual"], "gap"}  # where a phase lies that was not seen
    lines = {line: ns for line, ns in budget.lines_ns.items() if line not in left_out}
    line = max(lines, key=lambda one: lines[one], default="")
    share = lines[line] / budget.total_ns if line else 0.0
    spent_s = lines[line] / NS_PER_S if line else 0.0
    if share < limit("budget_line_large") or spent_s < limit("between_loss_floor"):
        return []
    return [
        Finding(
            id="recoverable",
            kind="RECOVERABLE",
            family="efficiency",
            severity="info",
            confidence=1.0,
            ranks=(budget.rank,),
            evidence={"line": line, "line_s": spent_s, "share_of_wall": share},
            cost_s=0.0,
            cost_basis="run",
            gain=None,
            headline=f"{percent(share)} of the run, {seconds(spent_s)}, is {names.told(line)}.",
            why=(
                f"It is the largest line of the budget that is not compute, and no finding says why: what is "
                f"in {line} was not told apart, or comes too unevenly to be judged."
            ),
            action=f"Look at what the loop does in {line}; tracer.region(name) splits it.",
        )
    ]


def _missing(context: Context) -> str:
    """Without a peak the budget is the wall ledger: unless a line stands out nothing was examined."""
    return "" if recoverable(context) else missing_mfu(context)


RULE: Final = Rule(
    topic="lines of the budget that nothing else names",
    kinds=(
        Kind(
            name="RECOVERABLE",
            means="A large part of the run is neither compute nor named by any other finding.",
            fires="A line of the budget other than compute, start-up and shutdown is a fifth of the run or more.",
            never="That all of it can be won, or why it is there: it is an observation and costs nothing.",
            action="Split the line with regions, and look at what runs in it.",
            limits=("budget_line_large", "between_loss_floor"),
        ),
    ),
    examine=recoverable,
    missing=_missing,
)
