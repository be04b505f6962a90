"""Keep the first fetch of an epoch apart from the steady wait, so that no time is billed twice."""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import EPOCH_FIRST, LOOKAHEAD, Totals
from traintrace_analysis.findings import CostBasis
from traintrace_analysis.step_window import Floats, Ints, Marks, StepWindow


@dataclass(frozen=True, slots=True, eq=False)
class InputWait:
    """The wait for batches of a window, split in two; matrices are ranks by window steps, in ns.

    Attributes:
        steady: The wait without what the start of an epoch added to it.
        excess: What the first step of an epoch waited longer than as many steady fetches of its rank;
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
    excess = np.where(first, wait - usual[:, None] * _steps_fetched(window, first, counts), 0.0)
    excess = np.where(excess > 0.0, excess, 0.0)  # NaN compares false: unknown adds nothing
    return InputWait(wait - excess, excess, tuple(int(count) for count in first.sum(axis=1)))


def _steps_fetched(window: StepWindow, first: Marks, others: Ints) -> Floats:
    """Give how many usual steps' batches the first step of an epoch fetches: 1 unless one is read ahead.

    A loader that reads one batch ahead fetches one more in the first step of an epoch and one less
    in the last, among `others`; both are steady fetches and no cost of starting.
    """
    fetched = np.ones(window.flags.shape)
    ahead = first & ((window.flags & LOOKAHEAD) != 0)
    for row, rank in enumerate(window.facts):
        batches = max(1.0, rank.totals.micro_batches / max(1, rank.totals.steps))
        missing = np.count_nonzero(ahead[row])
        if 0 < missing < others[row] * batches:
            usual = batches - missing / others[row]
            fetched[row, ahead[row]] = (batches + 1.0) / usual
    return fetched


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
