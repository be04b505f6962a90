"""Queues that hold too few items to even out the stages around them."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.stages.changes import caveat, signed, trust
from traintrace_analysis.rules.stages.losses import grade, losses_of, no_stages, share_lost
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent


def queue_too_small(context: Context) -> list[Finding]:
    """Find the queue that would win most if it held more."""
    stages = context.stages
    if stages is None:
        return []
    losses = losses_of(stages)
    if losses.queue is None:
        return []
    one, queue = losses.queue, next(q for q in stages.queues if q.name == losses.queue.target)
    severity = grade(
        share_lost(one.speedup),
        share_lost(1.0 + limit("stage_queue_gain")),
        share_lost(1.0 + limit("stage_gain_critical")),
        losses.queue_s,
    )
    if severity is None:
        return []
    return [
        Finding(
            id="queue-too-small",
            kind="QUEUE_TOO_SMALL",
            family="stages",
            severity=severity,
            confidence=0.9,
            ranks=(stages.rank,),
            evidence={
                "queue": queue.name,
                "capacity_count": queue.capacity,
                "suggested_count": round(one.amount),
                "mean_items": queue.mean_items,
                "full_share": queue.full_share,
                "empty_share": queue.empty_share,
                "gain_share": one.speedup - 1.0,
            },
            cost_s=losses.queue_s,
            cost_basis="run",
            gain=one.gain,
            headline=f"Queue {queue.name} is too small: with room for more, throughput is {signed(one.speedup)}.",
            why=(
                f"It holds {queue.capacity}, and is full {percent(queue.full_share or 0.0)} and empty "
                f"{percent(queue.empty_share or 0.0)} of the time: the stages at its ends are uneven and wait for each other "
                f"in turn.{trust(stages)}{caveat(stages.contention)}"
            ),
            action=f"Let {queue.name} hold {one.amount:,.0f} items, if memory allows.",
        )
    ]


RULE: Final = Rule(
    topic="the size of queues",
    kinds=(
        Kind(
            name="QUEUE_TOO_SMALL",
            means="A queue is now full and now empty, so that stages of uneven speed wait for each other in turn.",
            fires=(
                "The run played again with four times the capacity has 5 % more throughput or more, and the interval "
                "of that does not hold zero."
            ),
            never="That the memory for more items is there, or that items may become so old.",
            action="Let the queue hold more items.",
            limits=(
                "stage_queue_gain",
                "stage_gain_critical",
                "stage_replay_tolerance",
                "between_loss_floor",
            ),
        ),
    ),
    examine=queue_too_small,
    missing=no_stages,
    needs_steps=False,
)
