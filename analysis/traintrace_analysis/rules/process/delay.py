"""How long training threads were ready to run and had no CPU core."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import CostBasis, Severity
from traintrace_analysis.reading_columns import column, within
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.rules.process.cores import steady_process
from traintrace_analysis.statistics import Ratio, estimate_ratio
from traintrace_analysis.thresholds import limit

# The kernel counts all of the wait and not a sample of it, so few readings leave no doubt that it was there.
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Delay:
    """The wait of one rank's training thread for a core.

    Attributes:
        share: Of the steady time.
        throttled: Time that its cgroup was held back over the time that it waited.
        cost_s: Seconds that it waited in the traced span. basis: whether that is counted or scaled up.
        confidence: Chance that the share reaches the warning limit.
    """

    rank: RankFacts
    share: Ratio
    throttled: float
    cost_s: float
    basis: CostBasis
    confidence: float


def delays_of(context: Context) -> list[Delay]:
    """Give the waits of all ranks whose kernel counts them."""
    return [one for rank in recorded(context) if (one := _delay(context, rank)) is not None]


def grade(context: Context, delay: Delay) -> Severity | None:
    """Grade a wait; None if it is under the warning limit, or too small and unsure to speak of."""
    if delay.share.value < limit("run_queue_share_warning"):
        return None
    step_ms = context.metrics["step_time"].mean_ms or 0.0
    lost_ms = delay.share.value * step_ms
    small = lost_ms < limit("step_loss_floor") and delay.cost_s < limit("run_loss_floor")
    unsure = delay.confidence < limit("confidence_to_name")
    if small or unsure:
        return None if small and unsure else "info"
    critical = delay.share.chance_at_least(limit("run_queue_share_critical"))
    return "critical" if critical >= limit("confidence_of_critical") else "warning"


def named_share(context: Context) -> float:
    """Give the share of the steady time that the representative rank waits for a core.

    0 unless that wait is a finding by itself: other findings leave it out so that nothing is billed twice.
    """
    delay = _delay(context, context.rank)
    if delay is None or grade(context, delay) in (None, "info"):
        return 0.0
    return min(1.0, delay.share.value)


def share_in(context: Context, first: int, last: int) -> float | None:
    """Give the share of some steady steps in which the representative rank waits for a core.

    Args:
        context: The run.
        first: Place of the first of them among the steady steps.
        last: Place of the last.

    Returns:
        None if fewer readings than are needed lie wholly inside.
    """
    window, row = context.window, context.row
    span = (
        int(window.start_ns[row, window.warmup_steps + first]),
        int(window.close_ns[row, window.warmup_steps + last]),
    )
    readings = within(context.rank.process, span)
    waited, length = column(readings, "run_queue_ns"), column(readings, "interval_ns")
    known = np.isfinite(waited) & (length > 0.0)
    if known.sum() < limit("machine_readings_minimum"):
        return None
    return float(waited[known].sum() / length[known].sum())


def lacks_cores(context: Context) -> bool:
    """Tell whether training threads that want to run lack a CPU core so often that waits between ranks hold it.

    What moves the data on the CPU wants the same cores, so all ranks then wait although little is sent.
    """
    return any(_core_wait(context, rank) >= limit("core_wait_ratio") for rank in recorded(context))


def _delay(context: Context, rank: RankFacts) -> Delay | None:
    readings = steady_process(context, rank)
    waited, length = column(readings, "run_queue_ns"), column(readings, "interval_ns")
    known = np.isfinite(waited) & (length > 0.0)
    if known.sum() < limit("machine_readings_minimum"):
        return None
    share = estimate_ratio(waited[known], length[known])
    if share is None:
        return None
    held = column(readings, "throttled_ns")[known]
    waited_ns = float(waited[known].sum())
    throttled = float(np.nansum(held)) / waited_ns if waited_ns > 0.0 else 0.0
    cost_s, basis = _cost(rank)
    # On an accelerator the device may have worked on while the thread waited.
    trust = limit("host_clock_input_trust") if context.window.accelerator else 1.0
    chance = share.chance_at_least(limit("run_queue_share_warning"))
    return Delay(rank, share, throttled, cost_s, basis, _CONFIDENCE * chance * trust)


def _core_wait(context: Context, rank: RankFacts) -> float:
    """Give the part of the time that a training thread wanted a core in which it had none; 0 if not known."""
    readings = steady_process(context, rank)
    waited, ran = column(readings, "run_queue_ns"), column(readings, "on_cpu_ns")
    known = np.isfinite(waited) & np.isfinite(ran)
    if known.sum() < limit("machine_readings_minimum"):
        return 0.0
    wanted_ns = float(waited[known].sum() + ran[known].sum())
    return float(waited[known].sum()) / wanted_ns if wanted_ns else 0.0


def _cost(rank: RankFacts) -> tuple[float, CostBasis]:
    """Give the seconds of waiting in the traced span; scaled up where readings do not cover it."""
    waited, length = column(rank.process, "run_queue_ns"), column(rank.process, "interval_ns")
    known = np.isfinite(waited) & (length > 0.0)
    seen_s, covered_s = (float(part[known].sum()) / NS_PER_S for part in (waited, length))
    wall_s = rank.totals.wall_ns / NS_PER_S
    if covered_s >= limit("coverage_minimum") * wall_s:
        return min(seen_s, wall_s), "run"
    return min(seen_s / covered_s, 1.0) * wall_s, "window"
