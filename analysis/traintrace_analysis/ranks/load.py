"""Whether ranks differ because they were given different amounts of data."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.columns import Aligner
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit

# Work grows with the square of a sequence at most, and with samples at most as their number does.
_SLOPES: Final = {"padded_tokens": 2.2, "tokens": 2.2, "samples": 1.3}


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """An amount of data that explains how the ranks' own work differs.

    Attributes:
        amount: "padded_tokens", "tokens" or "samples".
        explained: Share of the variance between ranks that follows the amount, 0 to 1.
        slope: Growth of own work over growth of the amount, both relative.
        spread: Mean over rounds of the largest amount over the median one, less 1.
        excess: Ranks by rounds: own work above (or below) the median that the amount brings, in ns.
        share: What the slowest rank's share of it adds to a step, as a share of step time.
    """

    amount: str
    explained: float
    slope: float
    spread: float
    excess: Floats
    share: float


def explain_by_amount(window: StepWindow, work: OwnWork) -> Load | None:
    """Find the amount that explains most of how own work differs; None if none explains half."""
    middle = np.maximum(np.median(work.own, axis=0), 1.0)
    own = work.own / middle - 1.0
    loads = [
        load
        for name in _SLOPES
        if (amount := _amount(window, work, name)) is not None
        and (load := _explain(name, amount, own, middle, work)) is not None
    ]
    return max(loads, key=lambda load: load.explained, default=None)


def _amount(window: StepWindow, work: OwnWork, name: str) -> Floats | None:
    if name == "padded_tokens":
        matrix = Aligner(window.facts, window.steps).floats(name)
    else:
        matrix = window.tokens if name == "tokens" else window.samples
    if matrix is None:
        return None
    part: Floats = matrix[work.rows, window.warmup_steps :]
    return None if np.isnan(part).any() or not (part > 0.0).all() else part


def _explain(name: str, amount: Floats, own: Floats, middle: Floats, work: OwnWork) -> Load | None:
    apart = amount / np.median(amount, axis=0) - 1.0
    if float(np.abs(apart).max()) < limit("load_spread"):
        return None
    apart = np.clip(apart, -1.0, 4.0)
    both = float((apart * own).sum())
    varied, differs = float((apart**2).sum()), float((own**2).sum())
    if both <= 0.0 or not differs > 0.0:
        return None
    slope, explained = both / varied, both**2 / (varied * differs)
    if explained < limit("load_explained") or slope > _SLOPES[name]:
        return None
    excess = slope * apart * middle
    lost = excess.max(axis=0) - np.median(excess, axis=0)
    return Load(
        amount=name,
        explained=explained,
        slope=slope,
        spread=float(apart.max(axis=0).mean()),
        excess=excess,
        share=float(lost.sum() / work.step.sum()),
    )
