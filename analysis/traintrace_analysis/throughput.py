"""Speed of a run, with and without the time between its steps."""

import numpy as np

from traintrace_analysis.model import Rate, Throughput
from traintrace_analysis.step_window import Floats, StepWindow

_NS_PER_S = 1e9


def measure_throughput(window: StepWindow) -> Throughput:
    """Measure steps, samples and tokens per second over the steps after the warm-up.

    Times are medians over the ranks, work is summed over them. Only steps of this session count:
    a resumed run is not credited with what an earlier one did.
    """
    if window.steady_steps < 1:
        unknown = Rate(None, None)
        return Throughput(unknown, unknown, unknown)
    first = window.warmup_steps
    step_ns = float(np.median(window.host["step_time"][:, first:].sum(axis=1)))
    round_trip_ns = float(np.median(window.close_ns[:, -1] - window.open_ns[:, first]))
    return Throughput(
        steps_per_s=_rate(float(window.steady_steps), step_ns, round_trip_ns),
        samples_per_s=_rate(_total(window.samples[:, first:]), step_ns, round_trip_ns),
        tokens_per_s=_rate(_total(window.tokens[:, first:]), step_ns, round_trip_ns),
    )


def _total(work: Floats) -> float | None:
    """Sum over ranks and steps; None if any is unknown, since a partial sum would be a wrong rate."""
    total = float(work.sum())
    return None if np.isnan(total) else total


def _rate(amount: float | None, step_ns: float, round_trip_ns: float) -> Rate:
    if amount is None:
        return Rate(None, None)
    return Rate(
        step=amount * _NS_PER_S / step_ns if step_ns > 0 else None,
        round_trip=amount * _NS_PER_S / round_trip_ns if round_trip_ns > 0 else None,
    )
