"""The part of an account of the step that findings about passing moments name."""

import numpy as np

from traintrace.accounts import GROUPS, STEP_ACCOUNT_NAMES
from traintrace_analysis.context import Context
from traintrace_analysis.pauses import share_out
from traintrace_analysis.step_window import Floats


def pauses_in(context: Context, *accounts: str) -> Floats:
    """Give what collections, compilations, late rounds and uneven batches that are findings took of `accounts`.

    Returns:
        Ranks by steady steps, in ns.
    """
    window, comparison = context.window, context.comparison
    pauses = np.zeros((len(window.ranks), window.steady_steps))
    if context.pauses is not None:
        pauses += context.pauses
    if comparison is not None:
        for row, rank in enumerate(window.ranks):
            pauses[row] += comparison.passing_ns(rank)
    if not pauses.any():
        return pauses
    known = {
        name: part
        for name in STEP_ACCOUNT_NAMES
        if name not in GROUPS["waiting"] and (part := window.steady(name)) is not None
    }
    parts = share_out(known, pauses)
    total: Floats = sum((parts[name] for name in accounts if name in parts), np.zeros_like(pauses))
    return total
