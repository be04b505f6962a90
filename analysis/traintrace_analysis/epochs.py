"""Keep the first fetch of an epoch apart from the steady wait, so that no time is billed twice."""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import EPOCH_FIRST, Totals
from traintrace_analysis.findings import CostBasis
from traintrace_analysis.step_window import Floats, StepWindow


@dataclass(frozen=True, slots=True, eq=False)
class InputWait:
    """The wait for batches of a window, split in two; matrices are ranks by window steps, in ns.

    Attributes:
        steady: The wait without what the start of an epoch added to it.
        excess: What the first fetch of an epoch waited longer than a steady fetch of its rank;
            0 on all other steps, and everywhere if every step begins an epoch.
        starts: Number of epoch starts in the window, by rank.
    """

    steady: Floats
    excess: Floats
    starts: tuple[int, ...]


def split_wait(window: StepWindow) -> InputWait | None:
    """Split the wait of the whole window; None if it was not measured."""
    wait = window.host.get("input_wait")
    if wait is None:
        return None
    first = (window.flags & EPOCH_FIRST) != 0
    usual = np.full(len(window.ranks), np.nan)
    others = ~first & ~np.isnan(wait)
    others[:, : window.warmup_steps] &= not others[:, window.warmup_steps :].any()
    counts = others.sum(axis=1)
    np.divide(np.where(others, wait, 0.0).sum(axis=1), counts, out=usual, where=counts > 0)
    excess = np.where(first, wait - usual[:, None], 0.0)
    excess = np.where(excess > 0.0, excess, 0.0)  # NaN compares false: unknown adds nothing
    return InputWait(wait - excess, excess, tuple(int(count) for count in first.sum(axis=1)))


def first_fetch_cost(
    wait: InputWait | None, row: int, totals: Totals, window: StepWindow
) -> tuple[float, int, CostBasis]:
    """Give what first fetches cost one rank in the whole run.

    Returns:
        Seconds beyond a steady wait; the number of epoch starts; "run" if the window holds every
        step, "window" if its mean had to stand for the rest.
    """
    complete = len(window.steps) >= totals.steps
    basis: CostBasis = "run" if complete else "window"
    begun = totals.epochs or totals.calls.get("epoch_boundary", 0)
    if wait is None:
        return 0.0, begun, basis
    seen, excess_s = wait.starts[row], float(wait.excess[row].sum()) / 1e9
    if complete or not seen or begun <= seen:
        return excess_s, seen or begun, basis
    return excess_s / seen * begun, begun, basis
