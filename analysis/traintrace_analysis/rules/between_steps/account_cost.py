"""Runs that spend much of their time in work between the steps that was asked for."""

from dataclasses import replace
from typing import Final

from traintrace_analysis.context import NS_PER_MS, NS_PER_S, Context, grade_of_wall
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.between_steps.apart import named_apart_ns
from traintrace_analysis.rules.between_steps.rhythm import is_fixed_cost, pauses_of, rarer
from traintrace_analysis.rules.ranks.wording import ranks_text
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
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


def logging_cost(context: Context) -> list[Finding]:
    """Find runs that spend much of their time reading and sending logged values."""
    return _account_cost(
        context,
        "logging",
        headline="Logging takes {share} of the run.",
        action=(
            "Log less often, collect values on the device and read them together (each .item() waits "
            "for it), and send them from a background thread."
        ),
        caution=(
            " Reading a value also waits for what the device has queued; that part would be waited for "
            "elsewhere."
        ),
    )


def _account_cost(
    context: Context, account: str, *, headline: str, action: str, caution: str = ""
) -> list[Finding]:
    """Judge the exact time of one account, inside steps and between them.

    Args:
        context: The run.
        account: Its name.
        headline: With a place for {share}.
        action: What to do, whatever the rhythm.
        caution: What to add where the account may hold waiting for the device; "" if it may not.
    """
    context, spenders = _where_most_is_spent(context, account)
    totals = context.rank.totals
    apart_ns = named_apart_ns(context).get(account, 0.0)
    spent_ns = totals.account_ns.get(account, 0) - apart_ns
    if spent_ns <= 0 or not totals.wall_ns:
        return []
    share, cost_s = spent_ns / totals.wall_ns, spent_ns / NS_PER_S
    severity = grade_of_wall(share, account, cost_s)
    if severity is None:
        return []
    pauses = pauses_of(context, account)
    may_be_waiting = bool(caution) and context.window.accelerator
    confidence = _CONFIDENCE * (limit("host_clock_sync_trust") if may_be_waiting else 1.0)
    if confidence < limit("confidence_to_name") or (caution and is_fixed_cost(pauses, cost_s)):
        severity = "info"
    calls = totals.calls.get(account)
    inside_s = totals.inside_ns.get(account, 0) / NS_PER_S
    wall_s = totals.wall_ns / NS_PER_S
    # Where there is a rhythm, it says how long each pause is, and often how many there are.
    rhythmic = pauses.number if pauses is not None and pauses.number > 1 else None
    alone = calls is not None and calls > 1 and rhythmic is None
    each = f", {milliseconds(spent_ns / NS_PER_MS / calls)} each" if calls and alone else ""
    times = f" in {count(calls, 'call')}" if calls and calls != rhythmic else ""
    why = f"{seconds(cost_s)} of {seconds(wall_s)} went to {account}{times}{each}."
    if pauses is not None and pauses.number > 1:
        why += f" It comes {pauses.told()}."
        action += " " + rarer(cost_s, wall_s, pauses.every, limit(f"{account}_share_warning") / 2.0)
    if len(spenders) < len(context.window.ranks):
        why += f" Only {ranks_text(spenders)} did so; the other ranks wait for that when they next synchronise."
    if inside_s > 0.0:
        why += f" {seconds(inside_s)} of it lies inside steps, and is no part of their step time."
    if apart_ns > 0.0:
        why += f" {seconds(apart_ns / NS_PER_S)} more of it have a finding of their own."
    return [
        Finding(
            id=f"{account}-cost",
            kind=f"{account.upper()}_COST",
            family="between_steps",
            severity=severity,
            confidence=confidence,
            ranks=spenders,
            evidence={
                "share_of_wall": share,
                f"{account}_s": cost_s,
                "inside_steps_s": inside_s,
                "calls_count": calls,
                "every_steps": None if pauses is None else pauses.every,
                "wall_s": wall_s,
            },
            cost_s=cost_s,
            cost_basis="run",
            gain=without(totals, cost_s, upper_bound=may_be_waiting),
            headline=headline.format(share=percent(share)),
            why=why + (caution if may_be_waiting else ""),
            action=action,
        )
    ]


def _where_most_is_spent(context: Context, account: str) -> tuple[Context, tuple[int, ...]]:
    """Look at the run from the rank that spends most in `account`, and name all that spend about as much.

    Often one rank alone evaluates or saves, and it is rarely the representative one. All wait for it, so the
    job loses what it spends. Ranks that differ by less than a tenth are alike.
    """
    spent = {rank.rank: rank.totals.account_ns.get(account, 0) for rank in context.window.facts}
    most = max(context.window.facts, key=lambda rank: spent[rank.rank], default=context.rank)
    if spent.get(most.rank, 0) <= 1.1 * spent.get(context.rank.rank, 0):
        most = context.rank
    half = spent.get(most.rank, 0) / 2
    return replace(context, rank=most), tuple(rank for rank, ns in spent.items() if ns >= half)


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
LOGGING: Final = Rule(
    topic="logging",
    kinds=(
        Kind(
            name="LOGGING_COST",
            means="Training stands still while values are read, formatted and sent to a logger.",
            fires=(
                "Logging takes a twentieth of the run or more, and half a second or more, in pauses "
                "that are longer than the Python around any step."
            ),
            never=(
                "That the logger is slow where an accelerator trains: reading a value there waits for "
                "the device, so the finding is an observation."
            ),
            action="Log less often, or send values from a background thread.",
            limits=(
                "logging_share_warning",
                "logging_share_critical",
                "between_loss_floor",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_sync_trust",
            ),
        ),
    ),
    examine=logging_cost,
)
