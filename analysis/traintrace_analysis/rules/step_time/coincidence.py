"""Whether slow steps come together with something that happens between steps."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.step_window import Ints, Marks
from traintrace_analysis.thresholds import limit

_ACCOUNTS: Final = ("checkpoint", "evaluation", "logging", "prediction")
_TOLD: Final = {
    "checkpoint": "a checkpoint",
    "evaluation": "an evaluation",
    "logging": "logging",
    "prediction": "a prediction",
}


def coincident_with(context: Context, places: Ints) -> tuple[str | None, int]:
    """Name what most of the slow steps come with, and how many of them do.

    A step goes with what happened before it in its row, inside it, or in the row before: what runs on in
    the background slows the steps that follow. What happens at so many steps that chance explains the
    meeting is not named.

    Args:
        context: The run.
        places: Indices of slow steps among the steady steps.

    Returns:
        A noun with its article, or None; and the number of slow steps that it holds for.
    """
    best, most = None, 0
    for account in _ACCOUNTS:
        near = _near(context, account)
        matches = int(near[places].sum())
        rare = near.mean() <= limit("coincidence_rarity") if len(near) else False
        if rare and matches >= limit("coincidence_share") * len(places) and matches > most:
            best, most = _TOLD[account], matches
    return best, most


def _near(context: Context, account: str) -> Marks:
    window, row = context.window, context.row
    there = np.zeros(len(window.steps), dtype=bool)
    for side in (window.between, window.inside):
        if account in side:
            there |= side[account][row] > 0.0
    noted = [event.step for event in context.rank.events if event.kind == account]
    there |= np.isin(window.steps, noted)
    there[1:] |= there[:-1].copy()
    return there[window.warmup_steps :]
