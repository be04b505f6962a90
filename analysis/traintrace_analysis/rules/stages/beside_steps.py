"""What findings about steps say of seconds that a pipeline's findings name.

A training loop that takes its batches from a queue waits there in `input_wait` if the queue is its loader, in
`other` or `gap` if it takes them by hand. The stage that it waits for is the more specific cause, so the
pipeline's finding keeps the seconds and these leave them out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, seconds

# Findings that may hold the wait of the last stage, the likeliest first; stragglers if the pipeline is theirs.
_STRAGGLERS: Final = ("INPUT_STRAGGLER", "STRAGGLER")
_HOLDERS: Final = (*_STRAGGLERS, "INPUT_BOUND", "RESIDUAL_HEAVY", "GAP", "EPOCH_START_COST")
# What is left of the wait once the likeliest one has given up its seconds: the two clocks begin apart.
_TOO_LITTLE: Final = 0.05


def leave_to_stages(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Give the findings, those about steps without the seconds that a pipeline's findings name."""
    own = [one for one in findings if one.family == "stages" and one.cost_s > 0.0 and _named(one)]
    if not own or context.stages is None or context.stages.last_stage is None:
        return list(findings)
    last = context.stages.stage(context.stages.last_stage)
    # Only what the last stage waits for can also be a wait of the training loop. All of it comes from the
    # pipeline, also what a later bottleneck would still take once the first one is gone.
    whole_s = left_s = last.starved_share * context.stages.span_s
    settled = list(findings)
    for kind in _HOLDERS:
        for place, one in enumerate(settled):
            elsewhere = kind in _STRAGGLERS and context.stages.rank not in one.ranks
            if elsewhere or one.kind != kind:
                continue
            if _named(one) and left_s > _TOO_LITTLE * whole_s:
                taken_s = min(left_s, one.cost_s)
                left_s -= taken_s
                settled[place] = _without(context, one, taken_s, own)
    return settled


def _named(one: Finding) -> bool:
    return one.severity != "info"


def _without(context: Context, one: Finding, taken_s: float, own: Sequence[Finding]) -> Finding:
    rest_s = one.cost_s - taken_s
    wall_s = context.rank.totals.wall_ns / NS_PER_S
    kinds = listed(list(dict.fromkeys(other.kind for other in own)))
    small = rest_s < limit("stage_rest_share") * wall_s
    return replace(
        one,
        severity="info" if small else one.severity,
        cost_s=rest_s,
        gain=None if small else one.gain,
        evidence={**one.evidence, "named_by_stages_s": taken_s},
        why=(
            f"{one.why} About {seconds(taken_s)} of it is the wait for a stage of the pipeline, and counted at {kinds}."
        ),
    )
