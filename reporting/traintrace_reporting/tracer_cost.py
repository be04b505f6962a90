"""What tracing itself cost, estimated from what this run recorded."""

import math
from typing import Any

from traintrace.facts import RankFacts, TracerCost
from traintrace.recording.cost import IN_SITU_ERROR, IN_SITU_FACTOR, IN_SITU_WORST_FACTOR
from traintrace_analysis import Analysis


def estimate_overhead(chosen: RankFacts | None, analysis: Analysis) -> dict[str, Any]:
    """Estimate what tracing cost: transitions of this run, at the price of one in a real step.

    Args:
        chosen: The rank whose counts and prices are taken; None if there is none.
        analysis: Gives the step time that the cost is a share of.

    Returns:
        The `overhead` of the summary. Its method is "in_situ" where this machine's price is known,
        "hot_loop_scaled" where only the price in a hot loop is, else "not_measured".
    """
    if chosen is None:
        return {
            "method": "not_measured",
            **dict.fromkeys(
                ("per_step_us", "share", "level", "setup_s", "finish_s", "transitions_per_step")
            ),
        }
    steps = chosen.totals.steps
    marks = chosen.totals.transitions / steps if steps else None
    method, low, estimate, high = _transition_price(chosen.cost)
    step_ms = analysis.metrics["step_time"].mean_ms
    price = None
    if math.isnan(estimate):  # a damaged file does not say it any more
        method = "not_measured"
    elif marks is not None:
        price = {
            "estimate": marks * estimate / 1e3,
            "low": marks * low / 1e3,
            "high": marks * high / 1e3,
        }
    return {
        "method": method,
        "per_step_us": price,
        "share": price["estimate"] / (step_ms * 1e3) if price and step_ms else None,
        "level": chosen.level,
        "setup_s": chosen.cost.setup_s,
        "finish_s": chosen.cost.finish_s,
        "transitions_per_step": marks,
    }


def _transition_price(cost: TracerCost) -> tuple[str, float, float, float]:
    """Give how one transition was priced, and its price in ns: low, estimate, high."""
    if cost.in_situ_transition_ns is not None:
        price = cost.in_situ_transition_ns
        low, high = price * (1.0 - IN_SITU_ERROR), price * (1.0 + IN_SITU_ERROR)
        return "in_situ", low, price, high
    floor = cost.hot_transition_ns
    return (
        "hot_loop_scaled",
        floor,
        floor * IN_SITU_FACTOR,
        floor * IN_SITU_WORST_FACTOR,
    )
