"""The cost of starting epochs."""

from typing import Final

import numpy as np

from traintrace_analysis.context import NS_PER_S, Context, grade_of_wall
from traintrace_analysis.epochs import first_fetch_cost
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.actions import epoch_advice
from traintrace_analysis.rules.between_steps.apart import named_apart_ns
from traintrace_analysis.rules.named_time import pauses_in
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.wording import count, milliseconds, percent, seconds

# These sums are exact, so no sampling error enters; only the choice of the limit is debatable.
_CONFIDENCE: Final = 0.95


def epoch_start_cost(context: Context) -> list[Finding]:
    """Find the cost of starting epochs: making iterators and workers, and the slower first fetch."""
    totals = context.rank.totals
    making_ns = totals.account_ns.get("epoch_boundary", 0)
    making_s = (making_ns - named_apart_ns(context).get("epoch_boundary", 0.0)) / NS_PER_S
    fetch_s, starts, basis = first_fetch_cost(context.wait, context.row, totals, context.window)
    fetch_s -= _pauses_in_first_fetches_s(context)
    cost_s = making_s + fetch_s
    if not starts or not totals.wall_ns:
        return []
    share = cost_s / (totals.wall_ns / NS_PER_S)
    severity = grade_of_wall(share, "epoch_start", cost_s)
    if severity is None:
        return []
    each_ms = cost_s * 1e3 / starts
    advice = epoch_advice(context.rank.setup, making_s, fetch_s, starts)
    return [
        Finding(
            id="epoch-start-cost",
            kind="EPOCH_START_COST",
            family="between_steps",
            severity=severity,
            confidence=_CONFIDENCE,
            ranks=context.window.ranks,
            evidence={
                "share_of_wall": share,
                "epoch_boundary_s": making_s,
                "first_fetch_excess_s": fetch_s,
                "removable_s": advice.removes_s,
                "starts_count": starts,
                "each_ms": each_ms,
                "loader_workers_count": context.rank.setup.loader.workers,
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=without(totals, advice.removes_s, basis=basis, upper_bound=advice.removes_at_most),
            headline=f"Starting epochs takes {percent(share)} of the run.",
            why=(
                f"{count(starts, 'epoch start')} took {seconds(cost_s)}, {milliseconds(each_ms)} each: "
                f"{seconds(making_s)} making iterators and workers, {seconds(fetch_s)} in first "
                "fetches beyond the steady wait (part of input_wait)."
            ),
            action=advice.action,
        )
    ]


def _pauses_in_first_fetches_s(context: Context) -> float:
    """Give what pauses that are a finding of their own took of the first fetches in the window."""
    window, wait = context.window, context.wait
    if wait is None or context.pauses is None:
        return 0.0
    excess = wait.excess[context.row, window.warmup_steps :]
    pauses = pauses_in(context, "input_wait")[context.row]
    return float(np.minimum(excess, pauses).sum()) / NS_PER_S


RULE: Final = Rule(
    topic="epoch starts",
    kinds=(
        Kind(
            name="EPOCH_START_COST",
            means="Each epoch begins with a pause: making iterators and workers, and a slow first batch.",
            fires="Epoch starts take a twentieth of the run or more, and half a second or more.",
            never="That steady waits are fine: those are INPUT_BOUND.",
            action="persistent_workers=True, or do once what the dataset does at each start.",
            limits=(
                "epoch_start_share_warning",
                "epoch_start_share_critical",
                "between_loss_floor",
            ),
        ),
    ),
    examine=epoch_start_cost,
)
