"""What can be said when ranks wait for each other and none stands out."""

from traintrace_analysis.context import Context
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
