"""Leave out of an account what findings about moments name: slow steps, collections, compilations."""

from typing import Final

import numpy as np

from traintrace.facts import COMPILED
from traintrace_analysis.context import Context
from traintrace_analysis.rules.between_steps.incidents import (
    measure_collections,
    measure_compilations,
)
from traintrace_analysis.rules.step_time.tail import find_tail, is_worth_a_warning
from traintrace_analysis.step_window import Floats

_NAMED: Final = ("warning", "critical")
NAMED_APART: Final = " What slow steps, garbage collections or compilations add to that is a finding of its own and left out."


def apart_from_moments(context: Context, cause_ns: Floats) -> Floats:
    """Give a cause without what it takes above its usual time where another finding names the moment.

    Args:
        context: The run.
        cause_ns: Ranks by steady steps.

    Returns:
        `cause_ns` itself where there is no such finding.
    """
    window, first = context.window, context.window.warmup_steps
    apart = cause_ns
    usual = np.nanmedian(cause_ns, axis=1, keepdims=True)
    if window.gc_ns is not None and _is_named(context, "gc"):
        pauses = np.nan_to_num(window.gc_ns[:, first:])
        apart = apart - np.minimum(pauses, np.maximum(apart - usual, 0.0))
    if _is_named(context, "recompiles"):
        compiled = (window.flags[:, first:] & COMPILED) != 0
        apart = np.where(compiled, np.minimum(apart, usual), apart)
    tail = find_tail(context)
    if tail is not None and not tail.broad and is_worth_a_warning(context, tail):
        slow = tail.excess > 0.0
        apart = np.where(slow, np.minimum(apart, usual), apart)
    return apart


def _is_named(context: Context, cause: str) -> bool:
    measure = measure_collections if cause == "gc" else measure_compilations
    return measure(context).severity(context, cause) in _NAMED
