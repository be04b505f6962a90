"""Which stage limits the pipeline, how sure that is, and whether the waits agree."""

import math
from collections.abc import Sequence

from traintrace_analysis.stages.flow import Flow
from traintrace_analysis.stages.model import Limiting, QueueLoad, StageLoad
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, percent


def find_limiting(
    flow: Flow, stages: Sequence[StageLoad], queues: Sequence[QueueLoad]
) -> Limiting | str:
    """Give the stage with the largest demand per item and worker, or why none can be named.

    The one criterion is demand, which the stages around it do not change: a wait tells that something limits, not what.
    """
    if flow.circle:
        return f"not separable: {flow.circle}"
    inside = {one.name: one for one in stages if one.name in flow.names}
    known = [one for one in inside.values() if one.demand_ms]
    silent = [name for name, one in inside.items() if one.service_ms is None]
    if silent:
        return f"no service of {listed(silent)} was recorded"
    if not known:
        return "no work was recorded"
    few = [one for one in known if one.services < limit("stage_services_minimum")]
    if few:
        needed = int(limit("stage_services_minimum"))
        return f"{few[0].name} did {few[0].services} services; at least {needed} are needed"
    ranked = sorted(known, key=lambda one: -(one.demand_ms or 0.0))
    first, others = ranked[0], ranked[1:]
    confidence = max(0.0, 1.0 - sum(1.0 - _chance_larger(first, one) for one in others))
    near = limit("stage_near_balance")
    level = first.demand_ms or 0.0
    equals = [one.name for one in others if (one.demand_ms or 0.0) >= (1.0 - near) * level]
    corroborated, pattern = _pattern(flow, first, inside, queues)
    return Limiting(
        stage=first.name,
        confidence=min(confidence, 0.99),
        runner_up=others[0].name if others else None,
        lead=level / (others[0].demand_ms or math.inf) - 1.0 if others else None,
        balanced=(first.name, *equals) if equals else (),
        is_last=first.name == flow.last,
        corroborated=corroborated,
        pattern=pattern,
    )


def _chance_larger(one: StageLoad, other: StageLoad) -> float:
    """Give the chance that the demand of `one` is larger, both errors independent of each other."""
    gap = (one.demand_ms or 0.0) - (other.demand_ms or 0.0)
    error = math.hypot(one.demand_error_ms or 0.0, other.demand_error_ms or 0.0)
    if not error > 0.0:
        return 0.5 if gap == 0.0 else 1.0
    if not math.isfinite(error):
        return 0.5
    return 0.5 * (1.0 + math.erf(gap / error / math.sqrt(2.0)))


def _pattern(
    flow: Flow, first: StageLoad, inside: dict[str, StageLoad], queues: Sequence[QueueLoad]
) -> tuple[bool | None, str]:
    """Say how the stages around wait: those before it must be blocked more than starved, those after starved.

    A stage before a queue without bounds is never blocked, so that only those after tell anything.
    """
    bounded = {name for q in queues if q.capacity is not None for name in q.producers}
    before = [inside[name] for name in flow.names if name in flow.upstream(first.name) & bounded]
    after = [inside[name] for name in flow.names if name in flow.downstream(first.name)]
    least = limit("stage_wait_share")
    blocked = [one for one in before if one.blocked_share >= least]
    starved = [one for one in after if one.starved_share >= least]
    parts = [f"{one.name} is blocked {percent(one.blocked_share)}" for one in blocked]
    parts += [f"{one.name} is starved {percent(one.starved_share)}" for one in starved]
    if not parts:
        return None, ""
    wrong = [one for one in before if one.starved_share > max(least, one.blocked_share)]
    wrong += [one for one in after if one.blocked_share > max(least, one.starved_share)]
    # What waits there itself cannot hold up the others for all of their time.
    waits = first.starved_share + first.blocked_share
    return not wrong and waits < first.busy_share, f"{listed(parts)} of the time"
