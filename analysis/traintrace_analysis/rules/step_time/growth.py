"""Which account of the representative rank is larger in some steps than in others."""

from collections.abc import Mapping

import numpy as np

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace_analysis.context import Context
from traintrace_analysis.step_window import Floats, Marks


def account_series(context: Context) -> dict[str, Floats]:
    """Give each in-step account of the representative rank after the warm-up, in ns.

    Phases are on the window's clock; what was not measured on a step counts as none.
    """
    window, first = context.window, context.window.warmup_steps
    series = {}
    for name in STEP_ACCOUNT_NAMES:
        matrix = window.selected(name)
        if matrix is not None and not np.isnan(matrix[context.row, first:]).all():
            series[name] = np.nan_to_num(matrix[context.row, first:])
    return series


def largest_part(
    series: Mapping[str, Floats], slow: Marks, usual: Marks
) -> tuple[str | None, float]:
    """Name the account that is larger in the slow steps by most, and its share of all that is added.

    Returns:
        None and 0.0 if no account is larger.
    """
    if not slow.any() or not usual.any():
        return None, 0.0
    added = {
        name: max(0.0, float(values[slow].mean() - np.median(values[usual])))
        for name, values in series.items()
    }
    whole = sum(added.values())
    if not whole > 0.0:
        return None, 0.0
    largest = max(added, key=lambda name: added[name])
    return largest, added[largest] / whole
