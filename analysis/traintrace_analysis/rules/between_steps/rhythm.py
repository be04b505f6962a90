"""How often something happens between steps, how long it takes each time, and what rarer would cost."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.context import NS_PER_MS, Context
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, milliseconds, percent

_FACTORS: Final = (2, 4, 10)
_MOST: Final = 0.9  # of the time: what is left is the fixed cost of passing by


@dataclass(frozen=True, slots=True)
class Pauses:
    """The longest pauses of an account, those that make nine tenths of its time in the window.

    Attributes:
        number: How many there are. each_ms: their mean length. steps: steps of the window.
        first_step: The step that the first of them came before or lay in.
        every: Steps from one pause to the next, in the middle; those of the window for a single one.
        regular: True if all distances are the same.
    """

    number: int
    each_ms: float
    steps: int
    first_step: int
    every: int
    regular: bool

    @property
    def is_even(self) -> bool:
        """True if it comes with every other step or more often."""
        return 2 * self.number >= self.steps

    def told(self) -> str:
        """Say how the time comes, to follow "it comes"."""
        each = milliseconds(self.each_ms)
        if self.is_even:
            return f"with nearly every step, {each} each time"
        if self.number == 1:
            return f"in one pause of {each}, at step {self.first_step:,}"
        about = "" if self.regular else "about "
        return f"in {count(self.number, 'pause')} of {each} each, {about}every {self.every:,} steps"


def pauses_of(context: Context, account: str) -> Pauses | None:
    """Give the pauses of a between-step account on the representative rank; None if there are none."""
    window, row = context.window, context.row
    parts = [side[account][row] for side in (window.between, window.inside) if account in side]
    if not parts:
        return None
    spent: Floats = np.sum(parts, axis=0)
    order = np.argsort(-spent, kind="stable")
    within = np.cumsum(spent[order]) >= _MOST * spent.sum()
    number = int(np.argmax(within)) + 1
    if not spent.sum() > 0.0:
        return None
    chosen = np.sort(order[:number])
    distances = np.diff(window.steps[chosen])
    return Pauses(
        number=number,
        each_ms=float(spent[chosen].mean()) / NS_PER_MS,
        steps=len(window.steps),
        first_step=int(window.steps[chosen[0]]),
        every=max(1, round(float(np.median(distances)))) if number > 1 else len(window.steps),
        regular=bool((distances == distances[:1]).all()),
    )


def is_fixed_cost(pauses: Pauses | None, cost_s: float) -> bool:
    """Tell whether each pause is as short as the Python around any step, and the run loses little."""
    return (
        pauses is not None
        and pauses.each_ms < limit("step_loss_floor")
        and cost_s < limit("run_loss_floor")
    )


def rarer(cost_s: float, wall_s: float, every: int, target: float) -> str:
    """Say what doing it less often would cost, as a sentence.

    Args:
        cost_s: Seconds that it took.
        wall_s: Seconds of the run.
        every: Steps from one to the next, now.
        target: Share of the run to come under; the smallest usual factor that does is proposed.
    """
    rest = wall_s - cost_s
    left = {factor: cost_s / factor / (rest + cost_s / factor) for factor in _FACTORS}
    factor = next((f for f in _FACTORS if left[f] < target), _FACTORS[-1])
    now = "every step" if every == 1 else f"every {every:,} steps"
    return f"Every {_round(every * factor):,} steps instead of {now} would take {percent(left[factor])} of the run."


def _round(steps: int) -> int:
    """Keep two digits: nobody sets an interval to 1,037 steps."""
    digits = max(0, math.floor(math.log10(steps)) - 1)
    return int(round(steps, -digits))
