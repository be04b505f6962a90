"""Speed of a run, with and without the time between its steps."""

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.model import Rate, Throughput
from traintrace_analysis.step_window import Floats, Ints, StepWindow

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
    tails = [_after_last_ns(rank, int(window.steps[-1])) for rank in window.facts]
    loop_ns = window.close_ns[:, -1] - window.open_ns[:, first] - _left_out_ns(window)
    round_trip_ns = float(np.median(loop_ns + np.array(tails)))
    return Throughput(
        steps_per_s=_rate(float(window.steady_steps), step_ns, round_trip_ns),
        samples_per_s=_rate(_total(window.samples[:, first:]), step_ns, round_trip_ns),
        tokens_per_s=_rate(_total(window.tokens[:, first:]), step_ns, round_trip_ns),
    )


def _left_out_ns(window: StepWindow) -> Ints:
    """Give the time of steps between those of the window, by rank: their work does not count either.

    Rows follow each other without a gap, so a gap is a step without a row, or one that a profiler or the
    counting of operations slowed down.
    """
    first = window.warmup_steps
    gaps: Ints = window.start_ns[:, first + 1 :] - window.close_ns[:, first:-1]
    left_out: Ints = gaps.sum(axis=1)
    return left_out


def _after_last_ns(rank: RankFacts, last: int) -> int:
    """Give what a rank spent after its last step on training: evaluation, saving, logging.

    Dropped steps and shutdown are no part of a round trip. 0 if the rank went on to more steps.
    """
    if last != rank.totals.last_step:
        return 0
    spent = 0
    for span in reversed(rank.spans):  # in the order of steps
        if span.step <= last:
            break
        spent += 0 if span.account in ("shutdown", "aborted") else span.ns
    return spent


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
