"""What a fix would win: replay the measured steps with the cause taken out."""

import numpy as np

from traintrace_analysis.findings import Clock, Gain
from traintrace_analysis.statistics import bootstrap_ratios, effective_count, interval
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit


def replay(
    window: StepWindow, cause_ns: Floats, *, clock: Clock = "host", upper_bound: bool = False
) -> Gain | None:
    """Give the speed-up of the training loop without `cause_ns`.

    A step takes as long as its slowest rank's own work (the step without waiting for others), plus
    the least that any rank waited, which no rank can avoid, plus the time between steps. This
    critical path is added up twice, with the cause and without; a rank that is not the slowest
    wins nothing by being faster. The first row's time before its step is left out: set-up is
    not repeated. The interval is a block bootstrap over steps.

    Args:
        window: Its steady steps are replayed.
        cause_ns: Ranks by steady steps; NaN removes nothing. Time between steps counts as well.
        clock: Clock that the cause was measured on.
        upper_bound: The true gain may be anything down to none; the interval then starts at 1.

    Returns:
        None without steady steps, or if nothing would be left of them.
    """
    if window.steady_steps < 1:
        return None
    own, shared = critical_parts(window)
    now = own.max(axis=0) + shared
    fixed = (own - np.nan_to_num(cause_ns)).max(axis=0) + shared
    if not fixed.sum() > 0.0 or not now.sum() > 0.0:
        return None
    speedup = float(now.sum() / fixed.sum())
    if effective_count(now) < limit("effective_steps_for_interval"):
        return Gain(speedup, 1.0 if upper_bound else None, None, clock)
    bounds = interval(bootstrap_ratios(now, fixed))
    low, high = bounds if bounds is not None else (None, None)
    return Gain(speedup, 1.0 if upper_bound else low, high, clock)


def critical_parts(window: StepWindow) -> tuple[Floats, Floats]:
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
    return own - waiting, waiting.min(axis=0)
