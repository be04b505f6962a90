"""How much of the differences between step times the amount of data per step explains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from traintrace_analysis.statistics import MAD_TO_SD, cautious_time
from traintrace_analysis.step_window import Floats

AMOUNTS: Final = ("padded_tokens", "tokens", "samples")
_LEAST: Final = 30
_Z95: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Explained:
    """What the amount of data explains of the step time.

    Attributes:
        amount: "padded_tokens", "tokens" or "samples": of those known the one that explains most.
        share: Share of the variance of the step time that follows the amount, 0 to 1, outliers pulled in.
        low, high: 95 % interval of the share.
        spread: Standard deviation of the amount over its mean.
        ns_per_unit: What one more costs, by a straight line.
        padding_share: Share of the tokens that are padding; None where either number is not known.
        steps: Steps that it rests on.
    """

    amount: str
    share: float
    low: float
    high: float
    spread: float
    ns_per_unit: float
    padding_share: float | None
    steps: int


def explain(step_ns: Floats, amounts: Mapping[str, Floats]) -> Explained | None:
    """Find the amount that explains most; None if none is known on every step, or none differs.

    Args:
        step_ns: Step times in the order of steps.
        amounts: By name out of `AMOUNTS`, as long; NaN where unknown.
    """
    if len(step_ns) < _LEAST:
        return None
    known = {
        name: amounts[name]
        for name in AMOUNTS
        if name in amounts and not np.isnan(amounts[name]).any()
    }
    found = [
        one
        for name, amount in known.items()
        if (one := _explain(name, amount, step_ns)) is not None
    ]
    if not found:
        return None
    # The first of those that explain the same: padded tokens before the tokens in them.
    best = max(found, key=lambda one: round(one.share, 2))
    padded, tokens = known.get("padded_tokens"), known.get("tokens")
    padding = None
    if padded is not None and tokens is not None and padded.sum() > 0.0:
        padding = max(0.0, 1.0 - float(tokens.sum() / padded.sum()))
    return replace(best, padding_share=padding)


def _explain(name: str, amount: Floats, step_ns: Floats) -> Explained | None:
    mean = float(amount.mean())
    work, time = _pulled_in(amount), _pulled_in(step_ns)
    wide, scatter = float(work.std()), float(time.std())
    if not mean > 0.0 or not wide > 1e-9 * mean or not scatter > 0.0:
        return None
    x, y = (work - work.mean()) / wide, (time - time.mean()) / scatter
    agreement = float(np.mean(x * y))
    # Two series that both remember hold as many independent pairs as their product has.
    independent = max(4.0, len(x) / cautious_time(x * y))
    middle = math.atanh(min(0.999999, abs(agreement)))
    reach = _Z95 / math.sqrt(max(1.0, independent - 3.0))
    low = math.tanh(max(0.0, middle - reach)) ** 2 if agreement > 0.0 else 0.0
    high = math.tanh(middle + reach) ** 2
    share = agreement**2 if agreement > 0.0 else 0.0
    slope = max(0.0, agreement * scatter / wide)
    return Explained(name, share, low, high, float(amount.std()) / mean, slope, None, len(x))


def _pulled_in(values: Floats) -> Floats:
    """Pull outliers to five robust standard deviations; one slow step decides nothing."""
    middle = float(np.median(values))
    spread = MAD_TO_SD * float(np.median(np.abs(values - middle)))
    if not spread > 0.0:
        return values
    pulled: Floats = np.clip(values, middle - 5.0 * spread, middle + 5.0 * spread)
    return pulled
