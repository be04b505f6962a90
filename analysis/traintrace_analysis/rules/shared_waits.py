"""The waiting that all ranks share: what is left when no rank can be blamed for it is communication."""

import numpy as np

from traintrace.accounts import GROUPS
from traintrace_analysis.communication import pipeline_of
from traintrace_analysis.context import Context
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit


def shared_waits(context: Context) -> Floats | None:
    """Give the least that any rank waited in each steady step [ns].

    The last rank to come waits for nothing but the data themselves, so this is communication and no
    rank's fault.

    Returns:
        None where not all ranks can be compared (one of the others may be late), a rank or uneven batches
        explain the waiting, or waits are not known: on an accelerator the host does not wait for it.
    """
    comparison = context.comparison
    if comparison is None or not comparison.enough or context.window.accelerator:
        return None
    if not compares_all(context):
        return None
    if comparison.stragglers or comparison.rotation.rotates:
        return None
    if comparison.load is not None and comparison.load.share >= limit("straggler_share_warning"):
        return None
    waits: Floats = comparison.work.waiting.min(axis=0)
    return waits


def compares_all(context: Context) -> bool:
    """Tell whether every rank of the job is among those that are compared."""
    comparison = context.comparison
    return comparison is not None and len(comparison.work.ranks) == len(
        context.window.expected_ranks
    )


def named_part(context: Context, account: str) -> Floats | None:
    """Give what findings about communication name of an account, ranks by steady steps; None if nothing."""
    part = context.window.steady(account)
    if account == "communication" and pipeline_of(context) is not None:
        return part  # the waits of a pipeline are its bubble
    waits = shared_waits(context)
    if (
        waits is None
        or part is None
        or account not in GROUPS["waiting"]
        or context.comparison is None
    ):
        return None
    if waits.sum() < limit("exposed_comm_share_warning") * context.comparison.work.step.sum():
        return None
    whole = np.zeros_like(part)
    for name in GROUPS["waiting"]:
        waited = context.window.steady(name)
        if waited is not None:
            whole += np.nan_to_num(waited)
    share = np.divide(np.nan_to_num(part), whole, out=np.zeros_like(part), where=whole > 0.0)
    named: Floats = np.minimum(share * waits, np.nan_to_num(part))
    return named
