"""What slow steps take above the usual step: single ones, or a spread of all."""

from dataclasses import dataclass

import numpy as np

from traintrace_analysis.context import NS_PER_MS, Context, scaled_cost
from traintrace_analysis.levels import local_level
from traintrace_analysis.rules.step_time.own_steps import own_steps, without_work
from traintrace_analysis.spikes import Spikes, find_spikes
from traintrace_analysis.statistics import Ratio, estimate_ratio
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True, eq=False)
class SlowSteps:
    """What lies above the usual step: `excess` in ns by steady step, and what is known of it.

    `usual` is the level that it lies above, and `spread` the noise, as a share, that the usual
    steps have among themselves.
    """

    broad: bool
    spikes: Spikes
    excess: Floats
    usual: float
    ratio: Ratio
    confidence: float


def find_tail(context: Context) -> SlowSteps | None:
    """Look for single slow steps first, and for a broad spread if there are none.

    Returns:
        None if they take less than a tenth of step time, or chance may explain that.
    """
    steps = own_steps(context)
    if not len(steps.own):
        return None
    numbers = context.window.steps[context.window.warmup_steps :]
    values = _counted(context, steps.bursts, steps.counts)
    spikes = find_spikes(values, numbers)
    usual = float(np.median(values))
    enough = limit("spikes_minimum_regular" if spikes.periodic else "spikes_minimum")
    if enough <= len(spikes.places) <= limit("spikes_most") * len(values):
        return _graded(False, spikes, spikes.excess, usual, steps.step)
    values = _counted(context, steps.own, steps.counts)
    spikes = find_spikes(values, numbers)
    if spikes.spread < limit("jitter_spread"):
        return None
    usual = float(np.median(values))
    return _graded(True, spikes, np.maximum(values - usual, 0.0), usual, steps.step)


def is_worth_a_warning(context: Context, tail: SlowSteps) -> bool:
    """Tell whether a step, or the run, loses enough for a person to care."""
    mean_ms = float(tail.excess.mean()) / NS_PER_MS
    return mean_ms >= limit("step_loss_floor") or (
        scaled_cost(context, mean_ms) >= limit("run_loss_floor")
    )


def _counted(context: Context, values: Floats, counts: Marks) -> Floats:
    """Put every step at the usual amount of work, and those that do not count at the level around."""
    even, _ = without_work(context, values)
    return np.where(counts, even, local_level(even))


def _graded(
    broad: bool, spikes: Spikes, excess: Floats, usual: float, step: Floats
) -> SlowSteps | None:
    ratio = estimate_ratio(excess, step)
    warning = limit("jitter_share_warning")
    if ratio is None or ratio.value < warning:
        return None
    if not broad and spikes.periodic:
        # What comes at a fixed distance is as frequent as it is: only the last one may be missing.
        fewer = ratio.value * (1.0 - 1.0 / len(spikes.places))
        confidence = 0.95 if fewer >= warning else limit("jitter_confidence")
    else:
        confidence = ratio.chance_at_least(warning)
    if confidence < limit("jitter_confidence"):
        return None
    return SlowSteps(broad, spikes, excess, usual, ratio, confidence)
