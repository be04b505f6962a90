"""What the summary says of a pipeline of stages and queues: its section `stages`."""

from typing import Any

from traintrace_analysis.model import Analysis
from traintrace_analysis.stages import QueueLoad, StageLoad, WhatIf
from traintrace_reporting.format import finite


def section(analysis: Analysis) -> dict[str, Any] | None:
    """Give the section `stages` of the summary; None if no stage was marked."""
    found = analysis.stages
    if found is None:
        return None
    limiting, replayed, contention = found.limiting, found.replayed, found.contention
    return {
        "rank": found.rank,
        "last_stage": found.last_stage,
        "span_s": found.span_s,
        "warmup_s": found.warmup_s,
        "filling_s": found.filling_s,
        "stages": [_stage(one) for one in found.stages],
        "queues": [_queue(one) for one in found.queues],
        "limiting": None
        if limiting is None
        else {
            "stage": limiting.stage,
            "confidence": limiting.confidence,
            "next_stage": limiting.runner_up,
            "lead": limiting.lead,
            "balanced": list(limiting.balanced),
            "is_last": limiting.is_last,
            "waits_agree": limiting.corroborated,
            "waits": limiting.pattern or None,
        },
        "not_separable": found.not_separable or None,
        "replay": None
        if replayed is None
        else {
            "measured_per_s": replayed.measured_per_s,
            "replayed_per_s": replayed.replayed_per_s,
            "deviation": replayed.deviation,
            "services": replayed.services,
        },
        "what_ifs": [_what_if(one) for one in found.what_ifs],
        "withheld": found.withheld or None,
        "contention": None
        if contention is None
        else {
            "kind": contention.kind,
            "busy_workers": contention.busy_workers,
            "cores": contention.cores,
            "allowed_cores": contention.allowed,
        },
        "core_doubt": found.core_doubt or None,
    }


def _stage(one: StageLoad) -> dict[str, Any]:
    return {
        "name": one.name,
        "workers": one.workers,
        "kinds": list(one.kinds),
        "busy_share": one.busy_share,
        "starved_share": one.starved_share,
        "blocked_share": one.blocked_share,
        "other_share": one.other_share,
        "starved_by": dict(one.starved_by),
        "blocked_by": dict(one.blocked_by),
        "items": one.items,
        "tokens": one.tokens,
        "items_per_s": one.items_per_s,
        "tokens_per_s": one.tokens_per_s,
        "services": one.services,
        "service_ms": one.service_ms,
        "service_cv": one.service_cv,
        "services_per_item": one.per_item,
        "demand_ms": one.demand_ms,
        "demand_error_ms": finite(one.demand_error_ms),
        "law_deviation": one.law_deviation,
        "unmeasured": one.unmeasured or None,
    }


def _queue(one: QueueLoad) -> dict[str, Any]:
    return {
        "name": one.name,
        "capacity": one.capacity,
        "producers": list(one.producers),
        "consumers": list(one.consumers),
        "puts": one.puts,
        "gets": one.gets,
        "held": one.held,
        "seen_s": one.seen_s,
        "mean_items": one.mean_items,
        "full_share": one.full_share,
        "empty_share": one.empty_share,
        "residence_ms": one.residence_ms,
        "items_per_s": one.per_s,
        "little_deviation": one.little_deviation,
        "imbalance_items": one.imbalance,
        "doubt": one.doubt or None,
    }


def _what_if(one: WhatIf) -> dict[str, Any]:
    return {
        "change": one.change,
        "target": one.target,
        "amount": one.amount,
        "speedup": one.speedup,
        "low": None if one.gain is None else one.gain.low,
        "high": None if one.gain is None else one.gain.high,
    }
