"""The seconds that a pipeline loses, divided among the findings so that none has two names.

A bottleneck names busy time of the limiting stage that the next stage would not need. What is left are
waits: a queue that is too small names those that a larger one would remove, and only the rest is called
starved or blocked.
"""

from dataclasses import dataclass

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Severity
from traintrace_analysis.stages import Limiting, StageAnalysis, WhatIf
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class Losses:
    """Seconds of the pipeline's time, each in one field only.

    Attributes:
        bottleneck_s: What the limiting stage takes more than the next one, in time of the whole pipeline; 0.0
            if it is the last stage or takes hardly more.
        named: True if the bottleneck is sure enough and large enough to be named.
        queue: The larger queue that wins most, None if none wins enough. queue_s: what it would win.
        starved_s: What the last stage waits for items and nothing above explains.
        blocked_s: What the limiting stage waits for room and nothing above explains.
    """

    bottleneck_s: float
    named: bool
    queue: WhatIf | None
    queue_s: float
    starved_s: float
    blocked_s: float


def no_stages(context: Context) -> str:
    """Say why there is no pipeline to judge; "" if there is one."""
    return "" if context.stages else "the pipeline (no stage was marked; see traintrace.stage)"


def losses_of(stages: StageAnalysis) -> Losses:
    """Divide the time that a pipeline loses."""
    limiting = stages.limiting
    lost_share = _bottleneck_share(stages, limiting)
    named = (
        limiting is not None
        and not limiting.is_last
        and limiting.confidence >= limit("stage_confidence")
        and lost_share >= _share_of(limit("stage_gain_warning"))
    )
    last = None if stages.last_stage is None else stages.stage(stages.last_stage)
    subject = last if limiting is None else stages.stage(limiting.stage)
    idle_s = 0.0 if subject is None else _idle_share(stages, subject.name) * stages.span_s
    queue = max(
        (one for one in stages.what_ifs if one.change == "buffer" and _wins(one)),
        key=lambda one: one.speedup,
        default=None,
    )
    queue_s = 0.0
    if queue is not None:
        queue_s = min(_share_of(queue.speedup - 1.0) * stages.span_s, idle_s)
    starved_s = blocked_s = 0.0
    if last is not None and not named:
        starved_s = max(0.0, stages.last_starved_s - queue_s)
    if subject is not None and limiting is not None:
        blocked_s = max(0.0, subject.blocked_share * stages.span_s - queue_s)
        if subject is not last and not named:
            # The last stage starves while this one cannot hand over: the same seconds.
            starved_s = max(0.0, starved_s - blocked_s)
    return Losses(lost_share * stages.span_s, named, queue, queue_s, starved_s, blocked_s)


def grade(share: float, warning: float, critical: float, cost_s: float) -> Severity | None:
    """Grade a share of the pipeline's time; "info" where too few seconds are lost to matter."""
    if share < warning:
        return None
    if cost_s < limit("between_loss_floor"):
        return "info"
    return "critical" if share >= critical else "warning"


def starved_share(stages: StageAnalysis) -> float:
    """Give the share of the pipeline's time that its last stage waits for items, the first one left out."""
    return stages.last_starved_s / stages.span_s if stages.span_s > 0.0 else 0.0


def share_lost(speedup: float) -> float:
    """Give the share of time that a gain of throughput saves: 1.25 is a fifth."""
    return 1.0 - 1.0 / speedup if speedup > 1.0 else 0.0


def _share_of(gain: float) -> float:
    return share_lost(1.0 + gain)


def _bottleneck_share(stages: StageAnalysis, limiting: Limiting | None) -> float:
    if limiting is None or limiting.is_last or not limiting.lead:
        return 0.0
    replayed = stages.what_if("to_next", limiting.stage)
    subject = stages.stage(limiting.stage)
    excess = limiting.lead / (1.0 + limiting.lead)
    if replayed is not None:
        return min(share_lost(replayed.speedup), excess * subject.busy_share)
    # Without a replay the bound must do, and the wait of the last stage, which saw what was lost.
    last = 1.0 if stages.last_stage is None else stages.stage(stages.last_stage).starved_share
    return min(excess * subject.busy_share, last)


def _idle_share(stages: StageAnalysis, name: str) -> float:
    one = stages.stage(name)
    return one.starved_share + one.blocked_share


def _wins(one: WhatIf) -> bool:
    if one.gain is None or one.speedup < 1.0 + limit("stage_queue_gain"):
        return False
    return one.gain.low is None or one.gain.low > 1.0
