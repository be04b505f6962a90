"""Steps that now and then, or all the time, take much longer than the usual step."""

from typing import Final

import numpy as np

from traintrace_analysis.context import NS_PER_MS, Context, scaled_cost
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.process.delay import named_share as core_wait_share
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs, sync_caution
from traintrace_analysis.rules.step_time.coincidence import coincident_with
from traintrace_analysis.rules.step_time.growth import account_series, largest_part
from traintrace_analysis.rules.step_time.own_steps import on_every_rank
from traintrace_analysis.rules.step_time.tail import SlowSteps, find_tail, is_worth_a_warning
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, milliseconds, percent


def jitter(context: Context) -> list[Finding]:
    """Find what slow steps take above the usual step, where no other rule names it."""
    tail = find_tail(context)
    if tail is None:
        return []
    # Waits for a core make steps slow in bursts; where they are a finding, that names the seconds.
    core_wait = core_wait_share(context)
    left = max(0.0, tail.ratio.value - core_wait)
    mean_ms = float(tail.excess.mean()) / NS_PER_MS
    cost_s = scaled_cost(context, mean_ms) * left / tail.ratio.value
    gain = replay(context.window, on_every_rank(context, tail.excess), upper_bound=True)
    slow = tail.excess > 0.0
    account, part = largest_part(account_series(context), slow, ~slow)
    named = account if part >= limit("jitter_account_share") else None
    beside, matches = (None, 0) if tail.broad else coincident_with(context, tail.spikes.places)
    step_time = context.metrics["step_time"]
    return [
        Finding(
            id="jitter",
            kind="JITTER",
            family="step_time",
            severity=(
                _severity(context, tail) if left >= limit("jitter_share_warning") else "info"
            ),
            confidence=tail.confidence,
            ranks=context.window.ranks,
            evidence={
                "share": tail.ratio.value,
                "excess_ms": mean_ms,
                "usual_ms": tail.usual / NS_PER_MS,
                "p95_ms": step_time.p95_ms,
                "p99_ms": step_time.p99_ms,
                "slow_steps_count": int(slow.sum()),
                "spacing_steps": None if tail.broad else tail.spikes.spacing,
                "regular_share": None if tail.broad else tail.spikes.regular,
                "spread_share": float(np.expm1(tail.spikes.spread)),
                "slowest_in": account,
                "slowest_in_share": part,
                "coincides_with": beside,
                "coincident_count": matches if beside else None,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=gain,
            headline=_headline(tail),
            why=_why(tail, named, part, beside, matches)
            + _core_wait_text(core_wait)
            + sync_caution(context),
            action=_action(tail, named, beside),
        )
    ]


def _severity(context: Context, tail: SlowSteps) -> Severity:
    if not is_worth_a_warning(context, tail):
        return "info"
    chance = tail.ratio.chance_at_least(limit("jitter_share_critical"))
    return "critical" if chance >= limit("confidence_of_critical") else "warning"


def _core_wait_text(share: float) -> str:
    if not share > 0.0:
        return ""
    return (
        f" The training thread waits for a CPU core {percent(share)} of the time, which makes steps slow now and "
        "then: CPU_OVERSUBSCRIBED names those seconds, and the cost leaves them out."
    )


def _headline(tail: SlowSteps) -> str:
    share = percent(tail.ratio.value)
    if tail.broad:
        return f"Steps differ widely: {share} of step time lies above the usual step."
    if tail.spikes.periodic:
        return (
            f"Every {tail.spikes.spacing:,.0f} steps one is slow: that takes {share} of step time."
        )
    return f"{count(len(tail.spikes.places), 'slow step')} take {share} of step time."


def _why(
    tail: SlowSteps, account: str | None, part: float, beside: str | None, matches: int
) -> str:
    usual = milliseconds(tail.usual / NS_PER_MS)
    slow = tail.excess[tail.excess > 0.0]
    if tail.broad:
        text = (
            f"Half of the steps take under {usual}, and they spread by {percent(np.expm1(tail.spikes.spread))} "
            "around their level."
        )
    else:
        added = milliseconds(float(np.median(slow)) / NS_PER_MS)
        text = f"{count(len(slow), 'step')} of {len(tail.excess):,} take {added} more than the usual {usual}"
        if not tail.spikes.periodic and tail.spikes.spacing is not None:
            text += (
                f", {tail.spikes.spacing:,.0f} steps apart in the middle but at no fixed distance"
            )
        text += "."
    if account is not None:
        text += f" {percent(part)} of what is added is {account}."
    else:
        text += " No single account holds half of it."
    if beside is not None:
        text += f" {matches} of them come with or right after {beside}."
    return text


def _action(tail: SlowSteps, account: str | None, beside: str | None) -> str:
    if beside is not None:
        return f"Look at what {beside} leaves running or cold for the next steps; do it less often or apart."
    where = account if account is not None else "the step"
    if tail.broad:
        return (
            f"Look for what makes {where} differ: inputs of differing size, other work on the same cores or "
            "disk, too many threads. Mark suspects with `traintrace.region(name)`."
        )
    if tail.spikes.periodic:
        return (
            f"Look for what runs every {tail.spikes.spacing:,.0f} steps in {where}: logging, metrics, "
            "clearing caches, a loader's shard; do it less often, or in another thread."
        )
    return (
        f"Mark suspects in {where} with `traintrace.region(name)`, and compare the slow steps with what "
        "else the machine did then."
    )


RULE: Final = Rule(
    topic="spread of the steps",
    kinds=(
        Kind(
            name="JITTER",
            means=(
                "Some steps take much longer than the usual one, at a fixed distance or at random, or all "
                "steps differ widely."
            ),
            fires=(
                "What lies above the usual step takes a tenth of step time or more: five steps or more of "
                "at least twice the usual time (three at a fixed distance), or a spread of 40 % and more. "
                "What other rules name (waits that are a finding, garbage collections, compilations, "
                "starts of epochs, waits for a slow rank or for a CPU core, differing amounts of work) is left out."
            ),
            never=(
                "Why the steps are slow: it names the account that grew and what happened at the same "
                "steps. That all of it can be won: the gain is an upper bound."
            ),
            action="Look for what runs at that distance, or mark suspects with `traintrace.region(name)`.",
            limits=(
                "jitter_share_warning",
                "jitter_share_critical",
                "jitter_confidence",
                "jitter_spread",
                "spike_factor",
                "spike_regularity",
                "spikes_minimum",
                "spikes_minimum_regular",
                "spikes_most",
                "jitter_account_share",
                "work_correlation",
                "step_loss_floor",
                "run_loss_floor",
            ),
        ),
    ),
    examine=jitter,
    missing=needs("step_time"),
)
