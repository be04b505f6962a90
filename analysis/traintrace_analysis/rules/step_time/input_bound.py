"""Steps that wait for their batches."""

import math
from typing import Final

import numpy as np

from traintrace.facts import LOOKAHEAD
from traintrace_analysis.context import (
    NS_PER_MS,
    NS_PER_S,
    Context,
    grade,
    scaled_cost,
    step_cost,
    weigh_cause,
)
from traintrace_analysis.epochs import first_fetch_cost
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.advice import Supply, advise, measure_supply
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import exposed_share, needs
from traintrace_analysis.rules.step_time.apart import NAMED_APART, apart_from_others
from traintrace_analysis.statistics import block_means
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, milliseconds, percent, seconds


def input_bound(context: Context) -> list[Finding]:
    """Find steps that wait for their batches, the start of epochs left out.

    On the device clock only the part of the wait during which the device stood idle counts: a
    wait behind queued work delays nobody. On the host clock of an accelerator that part is
    unknown, so cost and gain are upper bounds, and say so.
    """
    window = context.window
    if context.wait is None:
        return []
    exposed = exposed_share(context)
    whole = context.wait.steady[:, window.warmup_steps :] * exposed
    weight = weigh_cause(window, whole, "input")
    if weight is None or weight.share < limit("input_share_warning"):
        return []
    wait = apart_from_others(context, whole, "input_wait")
    apart = wait is not whole
    weight = weigh_cause(window, wait, "input")
    if weight is None:
        return []
    blind = context.blind
    confidence = weight.confidence * (limit("host_clock_input_trust") if blind else 1.0)
    whole_s, basis = step_cost(
        context, ("input_wait",), context.metrics["input_wait"].mean_ms or 0.0
    )
    excess_s, starts, fetches = first_fetch_cost(
        context.wait, context.row, context.rank.totals, window
    )
    # First fetches are a finding of their own; those in the warm-up left with it.
    warm_excess = context.wait.excess[context.row, : window.warmup_steps]
    steady_excess_s = max(0.0, excess_s - float(warm_excess.sum()) / NS_PER_S)
    if (steady_excess_s > 0.0 and fetches == "window") or exposed < 1.0:
        basis = "window"
    cost_s = max(0.0, whole_s - steady_excess_s) * exposed
    if apart:
        cost_s, basis = scaled_cost(context, weight.cause_ms), "window"
    severity = grade(weight, "input", confidence, cost_s)
    if severity is None:
        return []
    why = (
        f"Steps wait {milliseconds(weight.cause_ms)} of {milliseconds(weight.step_ms)} for their "
        f"batches, on average{weight.range_text()}.{weight.spread_text()}"
    )
    if blind:
        why += " Only the host clock was available: the device may have been busy meanwhile, so cost and gain are upper bounds."
    if steady_excess_s >= limit("unjudged_between_share") * cost_s:
        why += (
            f" What the first fetches of {count(starts, 'epoch')} wait longer, {seconds(excess_s)}, "
            "is counted as starting epochs."
        )
    supply = measure_supply(context, weight.cause_ms, weight.step_ms)
    burst_ms = _burst_ms(wait[weight.row], supply) if weight.bursty else None
    feeding = advise(context.rank.setup, supply, burst_ms=burst_ms)
    why += f" {feeding.why}" if feeding.why else ""
    why += _reading_ahead(context, burst_ms) + (NAMED_APART if apart else "")
    removable = 1.0 - feeding.left_ms / weight.cause_ms
    return [
        Finding(
            id="input-bound",
            kind="INPUT_BOUND",
            family="step_time",
            severity=severity,
            confidence=confidence,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                "input_wait_ms": context.metrics["input_wait"].mean_ms,
                "exposed_share_of_wait": exposed,
                "warmup_s": context.warmup_s("input_wait"),
                "limited_by": feeding.limited_by,
                "workers_needed_count": feeding.workers,
                "wait_left_ms": feeding.left_ms,
                **_loader_evidence(context, supply),
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(
                window,
                np.maximum(wait * removable - _floor_ns(supply), 0.0),
                floor_ns=(
                    (feeding.left_at_most_ms - feeding.left_ms) * NS_PER_MS
                    + _floor_with_workers_ns(supply)
                    - _floor_ns(supply)
                ),
                clock=window.clock,
                upper_bound=blind or feeding.is_upper_bound,
            ),
            headline=f"Training waits for data: {percent(weight.share)} of step time.",
            why=why,
            action=feeding.action,
        )
    ]


def _floor_ns(supply: Supply) -> float:
    """Give what fetching a step's batches costs as the loader is set, however cheap the samples are."""
    if supply.workers:
        return _floor_with_workers_ns(supply)
    return limit("loader_floor") * NS_PER_MS * supply.batches


def _floor_with_workers_ns(supply: Supply) -> float:
    """Give the same with workers, which the advice to a loader without any is to have."""
    name = "loader_floor" if supply.workers is None else "loader_floor_workers"
    return limit(name) * NS_PER_MS * supply.batches


def _loader_evidence(context: Context, supply: Supply) -> dict[str, float | int | str | None]:
    """Give the loader's configuration, and what it delivered with it."""
    setup, loader = context.rank.setup, context.rank.setup.loader
    return {
        "loader_workers_count": loader.workers,
        "loader_prefetch_factor": loader.prefetch_factor,
        "loader_pin_memory": _switch(loader.pin_memory),
        "loader_persistent_workers": _switch(loader.persistent),
        "batch_size": setup.batch_size,
        "batch_bytes": setup.batch_bytes,
        "batches_per_step": supply.batches,
        "batch_make_ms": supply.make_ms,
        "batch_make_cpu_ms": supply.make_cpu_ms,
        "delivered_bytes_per_s": supply.bytes_per_s,
        "cores_allowed": supply.cores,
        "cores_in_use": supply.cores_in_use,
        "node_busy_share": supply.node_busy,
        "disk_read_bytes_per_s": supply.disk_bytes_per_s,
        "network_received_bytes_per_s": supply.network_bytes_per_s,
    }


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _reading_ahead(context: Context, burst_ms: float | None) -> str:
    """Say where a slow sample is felt if the loader fetches one batch early; nothing else."""
    window = context.window
    flags = window.flags[context.row, window.warmup_steps :]
    if burst_ms is None or 2 * np.count_nonzero(flags & LOOKAHEAD) < flags.size:
        return ""
    return (
        " The loader fetches one batch ahead: a long wait is for the batch after the one that its step "
        "was given."
    )


def _burst_ms(wait_ns: Floats, supply: Supply) -> float | None:
    """Give the length of wait that nine tenths of the waiting do not exceed, if a few batches are slow.

    Workers that are too slow deliver in step with each other, so that one step waits long and the
    next ones, as many as there are workers, do not: over so many steps such a wait is even.
    """
    waits = np.nan_to_num(wait_ns)
    together = max(1, math.ceil((supply.workers or 1) / supply.batches))
    blocks = block_means(waits, together)
    if len(blocks) and np.median(blocks) >= limit("bursty_wait") * blocks.mean():
        return None
    longest_first = np.sort(waits)[::-1]
    within = np.cumsum(longest_first) > 0.1 * longest_first.sum()
    return float(longest_first[int(np.argmax(within))]) / NS_PER_MS


RULE: Final = Rule(
    topic="waits for batches",
    kinds=(
        Kind(
            name="INPUT_BOUND",
            means="The training loop stands still until its next batch is there.",
            fires=(
                "The wait for batches, first fetches of epochs left out, takes a tenth of step time or "
                "more. On the device clock only the part counts during which the device was idle."
            ),
            never=(
                "That the dataset's own code is slow: a wait may come from storage, from handing "
                "batches over, or from too few cores. On the host clock of an accelerator, cost and "
                "gain are upper bounds."
            ),
            action="Let more loader workers prepare batches ahead, or make each sample cheaper.",
            limits=(
                "input_share_warning",
                "input_share_critical",
                "step_loss_floor",
                "run_loss_floor",
                "loader_floor",
                "loader_floor_workers",
                "bursty_wait",
                "handover_rate",
                "handover_fixed",
                "handover_share",
                "handover_total_rate",
                "worker_headroom",
                "cpu_bound_worker",
                "cores_to_be_had",
                "cores_in_use",
                "host_clock_input_trust",
            ),
        ),
    ),
    examine=input_bound,
    missing=needs("input_wait"),
)
