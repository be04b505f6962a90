"""Runs that spend much of their time in work between the steps that was asked for."""

from typing import Final

from traintrace_analysis.context import NS_PER_MS, NS_PER_S, Context, grade_of_wall
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.wording import count, milliseconds, percent, seconds

# These sums are exact, so no sampling error enters; only the choice of the limit is debatable.
_CONFIDENCE: Final = 0.95


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


EVALUATION: Final = Rule(
    topic="evaluation",
    kinds=(
        Kind(
            name="EVALUATION_COST",
            means="Much of the run is evaluation.",
            fires="Evaluation takes a tenth of the run or more, and half a second or more.",
            never="That the evaluation is not worth it: it is work that was asked for.",
            action="Evaluate less often, on less data, or in larger batches.",
            limits=("evaluation_share_warning", "evaluation_share_critical", "between_loss_floor"),
        ),
    ),
    examine=evaluation_cost,
)
CHECKPOINT: Final = Rule(
    topic="checkpoints",
    kinds=(
        Kind(
            name="CHECKPOINT_COST",
            means="Training stands still while checkpoints are written.",
            fires="Checkpoints take a twentieth of the run or more, and half a second or more.",
            never="That the disk is slow: serialising and copying count as well.",
            action="Save less often, to a faster disk, or in the background.",
            limits=("checkpoint_share_warning", "checkpoint_share_critical", "between_loss_floor"),
        ),
    ),
    examine=checkpoint_cost,
)
