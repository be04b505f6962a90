"""Leave out of an account what other findings name of it: slow steps, pauses, and what one rank adds."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from traintrace.accounts import GROUPS
from traintrace_analysis.context import NS_PER_MS, Context
from traintrace_analysis.metrics import rank_means
from traintrace_analysis.rules.named_time import pauses_in
from traintrace_analysis.rules.shared_waits import named_part
from traintrace_analysis.rules.step_time.tail import find_tail, is_worth_a_warning
from traintrace_analysis.step_window import Floats

NAMED_APART: Final = (
    " What slow steps, garbage collections, compilations or a single rank add to that is a finding of its own "
    "and left out."
)


def apart_from_others(context: Context, cause_ns: Floats, *accounts: str) -> Floats:
    """Give a cause without what other findings name of it.

    Args:
        context: The run.
        cause_ns: Ranks by steady steps.
        accounts: What the cause consists of.

    Returns:
        `cause_ns` itself where there is no such finding.
    """
    apart: Floats = cause_ns - pauses_in(context, *accounts)
    apart = _without_blamed(context, np.maximum(apart, np.minimum(cause_ns, 0.0)), accounts)
    apart = _without_communication(context, apart, accounts)
    apart = _without_slow_steps(context, apart, accounts)
    return cause_ns if np.array_equal(apart, cause_ns, equal_nan=True) else apart


def _without_blamed(context: Context, cause_ns: Floats, accounts: Sequence[str]) -> Floats:
    """Take from the ranks that are blamed for it what they add to the cause."""
    comparison, window = context.comparison, context.window
    if comparison is None or not comparison.stragglers:
        return cause_ns
    means = rank_means(cause_ns, len(window.ranks))
    apart: Floats = cause_ns.copy()
    for row, rank in enumerate(window.ranks):
        billed = NS_PER_MS * sum(comparison.billed_ms(rank, name) for name in accounts)
        if billed > 0.0 and means[row] > 0.0:
            apart[row] *= max(0.0, 1.0 - billed / means[row])
    return apart


def _without_communication(context: Context, cause_ns: Floats, accounts: Sequence[str]) -> Floats:
    """Take out collectives that all ranks wait in, as far as a finding about communication names them.

    What is asked about communication itself (`gradient_sync` among it) keeps them.
    """
    if "communication" not in accounts or "gradient_sync" in accounts:
        return cause_ns
    named = named_part(context, "communication")
    if named is None:
        return cause_ns
    apart: Floats = np.maximum(cause_ns - np.nan_to_num(named), np.minimum(cause_ns, 0.0))
    return apart


def _without_slow_steps(context: Context, cause_ns: Floats, accounts: Sequence[str]) -> Floats:
    """Take what lies above the usual time in steps that are slow, as far as these name it.

    Slow steps leave out waits for batches, and a spread of all steps leaves out transfers and the rest as
    well, where these are a finding (`own_steps`).
    """
    tail = find_tail(context)
    if tail is None or not is_worth_a_warning(context, tail):
        return cause_ns
    left_out = {"input_wait", "h2d", *GROUPS["residual"]} if tail.broad else {"input_wait"}
    if left_out.issuperset(accounts):
        return cause_ns
    spent = np.nan_to_num(cause_ns)
    above = np.maximum(spent - np.median(spent, axis=1, keepdims=True), 0.0)
    apart: Floats = cause_ns - np.minimum(above, tail.excess)
    return apart
