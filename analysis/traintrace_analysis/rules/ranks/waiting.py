"""What can be said when ranks wait for each other and none stands out."""

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.ranks import Comparison
from traintrace_analysis.rules.process.delay import lacks_cores
from traintrace_analysis.rules.ranks.wording import ranks_text
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent


def shared_waiting(context: Context) -> str:
    """Say that all ranks wait and none is to blame; "" if little is waited or a rank is blamed.

    Waiting that all ranks share is communication. From waits alone a slow link cannot be pinned on
    a rank: all wait for what it carries.
    """
    comparison = context.comparison
    if comparison is None or comparison.stragglers or comparison.rotation.rotates:
        return ""
    if comparison.load is not None and comparison.load.share >= limit("straggler_share_warning"):
        return ""
    work = comparison.work
    share = float(work.waiting.min(axis=0).sum() / work.step.sum())
    if share < limit("waiting_share_unexplained"):
        return ""
    if not comparison.enough:
        return f"Ranks wait for each other during {percent(share)} of step time; too few steps to say for which."
    if lacks_cores(context):
        return (
            f"Ranks wait for each other during {percent(share)} of step time and none of them stands out. They "
            "wait for CPU cores as well: how much of it is communication cannot be told."
        )
    return (
        f"Ranks wait for each other during {percent(share)} of step time and none of them stands out: "
        "that is communication. A slow link cannot be pinned on a rank from waits."
    )


def doubt(context: Context) -> str:
    """Say why ranks cannot be called even though none is blamed; "" if they can."""
    comparison = context.comparison
    if comparison is None or context.short:
        return ""
    work = comparison.work
    if not comparison.enough:
        return "The steps are worth too few independent ones to compare ranks."
    passing = _passing(comparison)
    if passing:
        return passing
    if work.blind:
        return (
            "Only the host clock was available: which rank's device is late cannot be told, only waits for "
            "batches were compared."
        )
    if work.sharded:
        return (
            "Forward and backward may hold communication, so a rank that computes more slowly cannot be "
            "told; the other accounts are even."
        )
    if not work.marked and work.doubtful:
        why = context.window.reasons.get("gradient_sync", "not marked on most ranks")
        return (
            "Backward may hold waiting for other ranks, so a rank that is slow in backward cannot be told; "
            f"the other accounts are even (gradient_sync: {why})."
        )
    return ""


def _passing(comparison: Comparison) -> str:
    """Say who was slow for too short a time, or cost too much too irregularly, to be blamed; "" if nobody."""
    for one in comparison.unripe:
        who = f"Rank {comparison.work.ranks[one.row]}"
        since = comparison.step_of(one.since)
        if since is None:
            return f"{who} was slower than the others in the first part of the window, and is not any more."
        return (
            f"{who} has been slower than the others since step {since:,}: too few steps, or too little "
            "lost, to blame it."
        )
    rotation = comparison.rotation
    few = rotation.carriers.rows
    if few and rotation.costs and not comparison.stragglers:
        who = ranks_text(comparison.ranks_of(np.array(few)))
        return (
            f"Late steps cost {percent(rotation.share)} of step time, most of it due to {who}, but "
            "seldom, or in one part of the window only."
        )
    return ""
