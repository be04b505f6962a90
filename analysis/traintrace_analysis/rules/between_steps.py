"""What the time between steps goes to."""

from traintrace_analysis.context import NS_PER_MS, NS_PER_S, Context, grade_of_wall
from traintrace_analysis.epochs import first_fetch_cost
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.actions import epoch_advice
from traintrace_analysis.wording import count, milliseconds, percent, seconds

# These sums are exact, so no sampling error enters; only the choice of the limit is debatable.
_CONFIDENCE = 0.95


def epoch_start_cost(context: Context) -> list[Finding]:
    """Find the cost of starting epochs: making iterators and workers, and the slower first fetch."""
    totals = context.rank.totals
    making_s = totals.account_ns.get("epoch_boundary", 0) / NS_PER_S
    fetch_s, starts, basis = first_fetch_cost(context.wait, context.row, totals, context.window)
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


def evaluation_cost(context: Context) -> list[Finding]:
    """Find runs that spend much of their time evaluating."""
    return _account_cost(
        context,
        "evaluation",
        headline="Evaluation takes {share} of the run.",
        action=(
            "Evaluate less often or on a part of the data, use larger evaluation batches, and keep "
            "the evaluation loader's workers."
        ),
    )


def checkpoint_cost(context: Context) -> list[Finding]:
    """Find runs that spend much of their time writing checkpoints."""
    return _account_cost(
        context,
        "checkpoint",
        headline="Writing checkpoints takes {share} of the run.",
        action=(
            "Save less often, save to a faster disk and copy from there, or write in the background "
            "with torch.distributed.checkpoint.async_save."
        ),
    )


def _account_cost(context: Context, account: str, *, headline: str, action: str) -> list[Finding]:
    totals = context.rank.totals
    spent_ns = totals.account_ns.get(account, 0)
    if not spent_ns or not totals.wall_ns:
        return []
    share, cost_s = spent_ns / totals.wall_ns, spent_ns / NS_PER_S
    severity = grade_of_wall(share, account, cost_s)
    if severity is None:
        return []
    calls = totals.calls.get(account)
    each = f", {milliseconds(spent_ns / NS_PER_MS / calls)} each" if calls and calls > 1 else ""
    times = f" in {count(calls, 'call')}" if calls else ""
    return [
        Finding(
            id=f"{account}-cost",
            kind=f"{account.upper()}_COST",
            family="between_steps",
            severity=severity,
            confidence=_CONFIDENCE,
            ranks=context.window.ranks,
            evidence={
                "share_of_wall": share,
                f"{account}_s": cost_s,
                "calls_count": calls,
                "wall_s": totals.wall_ns / NS_PER_S,
            },
            cost_s=cost_s,
            cost_basis="run",
            gain=without(totals, cost_s),
            headline=headline.format(share=percent(share)),
            why=(
                f"{seconds(cost_s)} of {seconds(totals.wall_ns / NS_PER_S)} went to "
                f"{account}{times}{each}."
            ),
            action=action,
        )
    ]
