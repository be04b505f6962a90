"""Steps that wait for data to move between ranks, with no rank to blame for it."""

from typing import Final

import numpy as np

from traintrace_analysis.communication import pipeline_of
from traintrace_analysis.context import Context, grade, scaled_cost
from traintrace_analysis.findings import Finding, Gain, Severity
from traintrace_analysis.replay import CriticalPath, critical_parts, replay
from traintrace_analysis.rules.communication.exposure import (
    ALONE,
    Exposure,
    explained_by_late_ranks,
    find_exposure,
)
from traintrace_analysis.rules.process.delay import lacks_cores
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shared_waits import compares_all
from traintrace_analysis.rules.shares import shares_a_model
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def exposed_comm(context: Context) -> list[Finding]:
    """Find communication that nothing hides; from a third of the step on the step is bound by it."""
    found = find_exposure(context)
    if found is None or found.share < limit("exposed_comm_share_warning"):
        return []
    if explained_by_late_ranks(found):
        return []
    confidence = _confidence(context, found)
    lost_ms = found.share * _mean_step_ms(context, found)
    cost_s = scaled_cost(context, lost_ms)
    severity = _severity(found, confidence, lost_ms, cost_s)
    if severity is None:
        return []
    bound = found.share >= limit("comm_bound_share")
    kind = "COMM_BOUND" if bound else "EXPOSED_COMM"
    what = "bound by communication" if bound else "waiting for communication that nothing hides"
    return [
        Finding(
            id=kind.lower().replace("_", "-"),
            kind=kind,
            family="communication",
            severity=severity,
            confidence=confidence,
            ranks=context.window.ranks,
            evidence={
                "share": found.share,
                "exposed_ms": found.ms,
                "step_time_ms": found.step_ms,
                "source": found.source,
                "hidden_share": found.hidden_share,
                "late_rank_share": found.late_share,
                "share_low": None if found.weight is None else found.weight.low,
                "share_high": None if found.weight is None else found.weight.high,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=_gain(context, found),
            headline=f"Steps are {what}: {percent(found.share)} of step time.",
            why=_why(context, found),
            action=_action(context, bound),
        )
    ]


def _confidence(context: Context, found: Exposure) -> float:
    if found.weight is not None:
        return found.weight.confidence
    alone = found.late_share is None and len(context.window.expected_ranks) > 1
    # Without the other ranks' traces part of it may be waiting for a late one.
    return limit("trace_confidence") * (limit("host_clock_input_trust") if alone else 1.0)


def _severity(found: Exposure, confidence: float, lost_ms: float, cost_s: float) -> Severity | None:
    if found.weight is not None:
        return grade(found.weight, "exposed_comm", confidence, cost_s)
    if lost_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor"):
        return "info"
    return "critical" if found.share >= limit("exposed_comm_share_critical") else "warning"


def _mean_step_ms(context: Context, found: Exposure) -> float:
    """Give the run's mean step: that of a trace is slowed down by the profiler."""
    return context.metrics["step_time"].mean_ms or found.step_ms


def _gain(context: Context, found: Exposure) -> Gain | None:
    """Give what hiding all of it would win; never known to be possible, hence an upper bound."""
    window = context.window
    cause = found.cause_ns
    path = critical_parts(window)
    if cause is None:
        cause = found.share * np.nan_to_num(window.host["step_time"][:, window.warmup_steps :])
    whole = CriticalPath(path.own + path.shared, np.zeros_like(path.shared))
    return replay(window, cause, clock=window.clock, upper_bound=True, path=whole)


def _why(context: Context, found: Exposure) -> str:
    if found.weight is not None:
        return (
            f"All ranks wait {milliseconds(found.ms)} of {milliseconds(found.step_ms)}"
            f"{found.weight.range_text()} for each other, the last one to come too, so it is the data that "
            f"take so long and no rank.{found.weight.spread_text()} Which link is slow cannot be told from waits."
        )
    hidden = (
        ""
        if found.hidden_share is None
        else f" Compute hides {percent(found.hidden_share)} of it all."
    )
    late = " Part of that may be waiting for ranks that come late: give the traces of all ranks to tell."
    if found.late_share is not None:
        late = (
            f" Waiting for late ranks is left out: {percent(found.late_share)} of what is exposed."
        ) + _unmatched(context)
    elif len(context.window.expected_ranks) < 2:
        late = ""
    return (
        f"In the traced steps no compute kernel ran during {milliseconds(found.ms)} of communication in "
        f"{milliseconds(found.step_ms)} (profiled steps, which are slower than others).{hidden}{late}"
    )


def _unmatched(context: Context) -> str:
    """Say that waiting may be in what could not be matched; nothing where all could."""
    waits = None if context.traffic is None else context.traffic.waits
    if waits is None or not waits.unmatched:
        return ""
    share = waits.unmatched / (waits.unmatched + waits.calls)
    return f" {percent(share)} of the calls were not found on all their ranks, and may be waiting, too."


def _action(context: Context, bound: bool) -> str:
    is_ddp = (context.rank.setup.strategy or "ddp") in ("ddp", "distributed_unknown")
    accumulates = (context.rank.setup.accumulation or 1) > 1
    parts = []
    if accumulates and is_ddp:
        parts.append("use no_sync() on all but the last micro-batch")
    if bound and is_ddp:
        parts.append(
            "send less: gradients in bfloat16 (bf16_compress_hook), larger batches or accumulation"
        )
    elif bound:
        parts.append("send less: smaller types in communication, larger batches or accumulation")
    elif is_ddp:
        parts.append("let it overlap with backward: try bucket_cap_mb between 10 and 100")
    else:
        parts.append("let it overlap with compute: look for prefetching in the strategy's options")
    parts.append(
        "check which transport is used (NCCL_DEBUG=INFO)"
        if context.window.accelerator
        else "check which network is used (GLOO_SOCKET_IFNAME)"
    )
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "."


def _missing(context: Context) -> str:
    traffic, window = context.traffic, context.window
    if traffic is not None and any(not t.host_only and t.communicates for t in traffic.traces):
        return ""
    if len(window.expected_ranks) < 2:
        none = traffic is None or not any(t.communicates for t in traffic.traces)
        why = ALONE if traffic is None else "the trace holds no communication"
        return f"communication ({why})" if none else "communication (the trace holds no device)"
    if pipeline_of(context) is not None:
        return "communication (the waits of a pipeline are its bubble)"
    if window.accelerator:
        return "communication (the host does not wait for it; take a trace with profile_steps)"
    if context.comparison is None:
        return "communication (fewer than two ranks can be compared)"
    if not compares_all(context):
        return "communication (not all ranks can be compared, and one of the others may be late)"
    if shares_a_model(context):
        return "communication (forward and backward may hold it, as the model is sharded; take a trace)"
    if not context.comparison.work.marked and not context.comparison.work.waiting.any():
        why = window.reasons.get("gradient_sync", "no wait between ranks was marked")
        return f"communication ({why})"
    if lacks_cores(context):
        return "communication (ranks wait for CPU cores as well)"
    return ""


_LIMITS: Final = (
    "exposed_comm_share_warning",
    "exposed_comm_share_critical",
    "comm_bound_share",
    "late_rank_share",
    "core_wait_ratio",
    "step_loss_floor",
    "run_loss_floor",
)

RULE: Final = Rule(
    topic="communication between ranks",
    kinds=(
        Kind(
            name="COMM_BOUND",
            means="Ranks spend so much of the step on moving data that hiding it alone would not do.",
            fires="As EXPOSED_COMM, from a third of step time on.",
            never=(
                "Which link is slow. It is not found where a slow or uneven rank explains the waiting: that is a "
                "finding of the family ranks."
            ),
            action="Send less: smaller types, fewer synchronisations, larger batches; check the transport.",
            limits=_LIMITS,
        ),
        Kind(
            name="EXPOSED_COMM",
            means="Data move between ranks while no compute runs: the step waits for them.",
            fires=(
                "A tenth of step time or more. From traces: communication kernels during which no compute kernel ran "
                "on the same device, less what was waiting for late ranks. Without a trace, on the CPU: what all "
                "ranks wait, the last one to come included, unless ranks also wait for CPU cores."
            ),
            never=(
                "That all of it can be hidden. Without traces of all ranks a trace cannot tell it from waiting for a "
                "late rank, and the finding says so."
            ),
            action="Let communication overlap with backward; skip it while gradients accumulate.",
            limits=_LIMITS,
        ),
    ),
    examine=exposed_comm,
    missing=_missing,
)
