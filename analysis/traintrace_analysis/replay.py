"""What a fix would win: exact from the totals between steps, replayed with an interval inside them.

No other module computes a gain. Time between steps was counted to the nanosecond over the whole
run, so taking it out of the wall time needs no statistics. A cause inside the steps also has to be
the one that its step waits for, on the slowest rank, which only the steps one by one can tell.

The interval is that of a ratio of sums (`statistics.estimate_ratio`) and not a block bootstrap's: with
200 simulated jobs of each kind (100 to 1,000 steps, AR 0 to 0.9) it held the true gain in 90 to 95 %,
the percentiles of a circular block bootstrap with automatic blocks (Politis and White 2004) in 75 to
82 %. `tests/analysis/test_gain_interval.py` makes the comparison again.
"""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import Totals
from traintrace_analysis.findings import Clock, CostBasis, Gain, GainScope
from traintrace_analysis.statistics import Ratio, estimate_ratio
from traintrace_analysis.step_window import Floats, StepWindow


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """What a step consists of: it takes as long as its slowest rank's own work and what is shared.

    Attributes:
        own: Ranks by steady steps, in ns.
        shared: By steady steps: time that passes whatever any single rank does.
    """

    own: Floats
    shared: Floats


def without(
    totals: Totals, removed_s: float, *, basis: CostBasis = "run", upper_bound: bool = False
) -> Gain | None:
    """Give the speed-up of the whole run without `removed_s` of its wall time.

    Args:
        totals: Sums of the rank whose wall time counts.
        removed_s: Seconds that lie between steps, or that no other rank hides.
        basis: "run" if the seconds are exact sums: the interval is then that one number.
            "window" if they are scaled, which allows no interval.
        upper_bound: The true gain may be anything down to none.

    Returns:
        None if nothing would be won, or nothing be left.
    """
    now = totals.wall_ns / 1e9
    if not 0.0 < removed_s < now:
        return None
    speedup = now / (now - removed_s)
    exact = speedup if basis == "run" else None
    return _gain(speedup, 1.0 if upper_bound else exact, exact, "host", "run")


def replay(
    window: StepWindow,
    cause_ns: Floats,
    *,
    floor_ns: float = 0.0,
    clock: Clock = "host",
    upper_bound: bool = False,
    path: CriticalPath | None = None,
) -> Gain | None:
    """Give the speed-up of the training loop without `cause_ns`.

    A step takes as long as its slowest rank's own work (the step without waiting for others), plus
    the least that any rank waited, which no rank can avoid, plus the time between steps. This
    critical path is added up twice, with the cause and without; a rank that is not the slowest
    wins nothing by being faster. The first row's time before its step is left out: set-up is
    not repeated.

    Args:
        window: Its steady steps are replayed.
        cause_ns: Ranks by steady steps; NaN removes nothing.
        floor_ns: How much of each step's cause may be there whatever one does; the lower end of
            the interval leaves so much in.
        clock: Clock that the cause was measured on.
        upper_bound: The true gain may be anything down to none; the interval then starts at 1.
        path: Own work and shared time, if they are better known than from what is marked as waiting.

    Returns:
        None without steady steps, if nothing would be left of them, or if nothing would be won.
    """
    if window.steady_steps < 1:
        return None
    path = path or critical_parts(window)
    own, shared = path.own, path.shared
    now = own.max(axis=0) + shared
    removed = np.nan_to_num(cause_ns)
    best = _ratio(own, shared, now, removed)
    if best is None:
        return None
    bounds = best.interval()
    # An interval that holds "nothing won" and "twice as fast" alike is no help to anybody.
    low, high = bounds if bounds is not None and bounds[0] > 1.0 else (None, None)
    if floor_ns > 0.0 and low is not None:
        # What certainly can be removed has an error of its own; the lower of both ends counts.
        least = _ratio(own, shared, now, np.maximum(removed - floor_ns, 0.0))
        pessimistic = None if least is None else least.interval()
        low = low if pessimistic is None else min(low, pessimistic[0])
    return _gain(best.value, 1.0 if upper_bound else low, high, clock, "loop")


def critical_parts(window: StepWindow) -> CriticalPath:
    """Give each rank's own time per steady step, and the waiting that all ranks share.

    Own time holds what lies between steps too. Waiting is `gradient_sync` and `communication`;
    where it was not marked it stays in the own time and the replay wins less than a fix would.
    """
    first = window.warmup_steps
    own = (window.close_ns - window.start_ns)[:, first:].astype(np.float64)
    if not first:
        own[:, 0] = window.close_ns[:, 0] - window.open_ns[:, 0]
    waiting = np.zeros_like(own)
    if len(window.ranks) > 1:
        for name in ("gradient_sync", "communication"):
            if name in window.host:
                waiting += np.nan_to_num(window.host[name][:, first:])
    return CriticalPath(own - waiting, waiting.min(axis=0))


def _ratio(own: Floats, shared: Floats, now: Floats, removed: Floats) -> Ratio | None:
    return estimate_ratio(now, (own - removed).max(axis=0) + shared)


def _gain(
    speedup: float, low: float | None, high: float | None, clock: Clock, scope: GainScope
) -> Gain | None:
    """Give the gain; None if it is none. Removing work never makes a run slower than it is."""
    if not speedup > 1.0:
        return None
    floor = None if low is None else max(1.0, low)
    return Gain(speedup, floor, high, clock, scope)
