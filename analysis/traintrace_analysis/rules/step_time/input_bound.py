"""Steps that wait for their batches."""

from typing import Final

import numpy as np

from traintrace_analysis.context import (
    NS_PER_MS,
    NS_PER_S,
    Context,
    grade,
    step_cost,
    weigh_cause,
)
from traintrace_analysis.epochs import first_fetch_cost
from traintrace_analysis.findings import Clock, Finding
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.actions import input_action
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import exposed_share, needs
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
    wait = context.wait.steady[:, window.warmup_steps :] * exposed
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
    severity = grade(weight, "input", confidence, cost_s)
    if severity is None:
        return []
    clock: Clock = window.clock
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
                "loader_workers_count": context.rank.setup.loader.workers,
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(
                window, wait, floor_ns=_loader_floor_ns(context), clock=clock, upper_bound=blind
            ),
            headline=f"Training waits for data: {percent(weight.share)} of step time.",
            why=why,
            action=input_action(
                context.rank.setup,
                weight.cause_ms,
                weight.step_ms,
                burst_ms=_burst_ms(wait[weight.row]) if weight.bursty else None,
            ),
        )
    ]


def _loader_floor_ns(context: Context) -> float:
    """Give what fetching a step's batches costs at the least, whatever the loader is set to."""
    totals, workers = context.rank.totals, context.rank.setup.loader.workers
    floor_ms = limit("loader_floor_workers" if workers else "loader_floor")
    return floor_ms * NS_PER_MS * totals.micro_batches / max(1, totals.steps)


def _burst_ms(wait_ns: Floats) -> float:
    """Give the length of wait that nine tenths of the waiting do not exceed."""
    longest_first = np.sort(np.nan_to_num(wait_ns))[::-1]
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
                "host_clock_input_trust",
            ),
        ),
    ),
    examine=input_bound,
    missing=needs("input_wait"),
)
