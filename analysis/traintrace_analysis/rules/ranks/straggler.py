"""Ranks that are slower than the others, step after step, and what with."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.ranks import Comparison, Straggler
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.ranks.advice import advise
from traintrace_analysis.rules.ranks.kinds import STRAGGLER_KINDS
from traintrace_analysis.rules.ranks.setups import (
    alignment_action,
    differences_text,
    setup_differences,
)
from traintrace_analysis.rules.ranks.wording import (
    comparison_of,
    needs_peers,
    path_of,
    ranks_text,
    whole_run,
)
from traintrace_analysis.rules.rule import Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, milliseconds, percent


def straggler(context: Context) -> list[Finding]:
    """Find ranks that the others wait for."""
    comparison = comparison_of(context)
    return [
        _finding(context, comparison, one, number)
        for number, one in enumerate(comparison.stragglers)
    ]


def _finding(context: Context, comparison: Comparison, one: Straggler, number: int) -> Finding:
    work, cause = comparison.work, one.cause
    ranks = comparison.ranks_of(one.rows)
    lost_ns = _lost_ns(comparison) * _part_of_bill(one, comparison)
    cost_s, basis = whole_run(context, lost_ns)
    removed = np.zeros_like(comparison.own)
    removed[one.rows] = one.removed
    confidence = one.confidence * (limit("host_clock_input_trust") if work.blind else 1.0)
    who = ranks_text(ranks, one.node)
    step_ms = float(work.step.mean()) / 1e6
    last = np.isin(comparison.own.argmax(axis=0), one.rows)
    waits = work.waiting.mean(axis=1) / 1e6
    others = np.setdiff1d(np.arange(len(work.ranks)), one.rows)
    differs = setup_differences(context.window.facts, ranks)
    return Finding(
        id="-".join([cause.kind.lower().replace("_", "-"), *([str(number + 1)] if number else [])]),
        kind=cause.kind,
        family="ranks",
        severity=_severity(one, comparison, confidence),
        confidence=confidence,
        ranks=ranks,
        evidence={
            "excess_ms": one.excess_ns / 1e6,
            "share": one.share,
            "step_time_ms": step_ms,
            "cause": cause.account,
            "cause_covers_share": cause.covered if cause.account else None,
            "last_share": float(last.mean()),
            "late_share": one.late_share,
            "since_step": comparison.step_of(one.since),
            "waiting_ms": float(waits[one.rows].mean()) if work.marked else None,
            "waiting_of_others_ms": float(np.median(waits[others])) if work.marked else None,
            "node": one.node,
            "ranks_compared": len(work.ranks),
            "set_up_differs": listed(differs) or None,
            **{f"{name}_excess_ms": ms for name, ms in cause.excess_ms.items()},
        },
        cost_s=cost_s,
        cost_basis=basis,
        gain=replay(
            context.window,
            removed,
            clock=work.clock,
            upper_bound=work.blind or one.hidden,
            path=path_of(work, comparison.path),
        ),
        headline=_headline(one, comparison, who),
        why=(
            _why(one, comparison, step_ms)
            + _next_slowest(one, lost_ns)
            + differences_text(differs, several=len(ranks) > 1)
            + _hidden_by_another(one, comparison)
        ),
        action=alignment_action(differs, who) + advise(context, one, who),
    )


def _lost_ns(comparison: Comparison) -> float:
    """Give what the steps would be shorter if all stragglers were like the others, noise and all.

    It is less than their excess over the median: of the others, too, one is the slowest in each step.
    """
    left = comparison.path.copy()
    for one in comparison.stragglers:
        left[one.rows] -= one.removed
    return max(0.0, float((comparison.path.max(axis=0) - left.max(axis=0)).mean()))


def _part_of_bill(one: Straggler, comparison: Comparison) -> float:
    whole = sum(other.billed_ns for other in comparison.stragglers)
    return one.billed_ns / whole if whole > 0.0 else 0.0


def _next_slowest(one: Straggler, lost_ns: float) -> str:
    """Say why less is lost than the excess, where that is so."""
    if lost_ns >= 0.9 * one.billed_ns:
        return ""
    return (
        f" Without it the next slowest rank would be waited for, so {milliseconds(lost_ns / 1e6)} a step "
        "are lost."
    )


def _severity(one: Straggler, comparison: Comparison, confidence: float) -> Severity:
    work = comparison.work
    unsure = confidence < limit("confidence_to_name")
    if unsure or one.excess_ns / 1e6 < limit("straggler_loss_floor"):
        return "info"
    provable = not (work.sharded or work.blind)
    certain = one.critical >= limit("confidence_of_critical")
    return "critical" if provable and certain else "warning"


def _headline(one: Straggler, comparison: Comparison, who: str) -> str:
    named = one.cause.account or "an account that cannot be told"
    since = comparison.step_of(one.since)
    often = "" if one.late_share is None else f" in {percent(one.late_share)} of the steps"
    often = often if since is None else f" since step {since:,}"
    each = milliseconds(one.excess_ns / one.part / 1e6)
    verb = "waits" if len(one.rows) == 1 else "wait"
    make = "makes" if len(one.rows) == 1 else "make"
    text = f"{who} {make} all others wait{often}: {each} a step, by {named}."
    if one.cause.account == "input_wait":
        text = (
            f"{who} {verb} {each} longer for batches than the others{often}, and all wait for that."
        )
    return text[:1].upper() + text[1:]


def _why(one: Straggler, comparison: Comparison, step_ms: float) -> str:
    work, cause = comparison.work, one.cause
    several = len(one.rows) > 1
    its, it = ("Their", "They wait") if several else ("Its", "It waits")
    whose = f"{its} own work" if one.part == 1.0 else f"Over all steps, {its.lower()} own work"
    parts = [
        f"{whose} exceeds the median of the others by {percent(one.share)} of a step of "
        f"{milliseconds(step_ms)}."
    ]
    if one.since:
        parts.append("Up to then it was as fast as they.")
    if cause.account is not None:
        parts.append(f"Of that, {percent(min(1.0, cause.covered))} is {cause.account}.")
    elif work.sharded:
        parts.append(
            "Forward and backward may hold communication here, and no other account explains 80 % of it."
        )
    elif not work.marked:
        parts.append("Most of it lies in backward, which may hold waiting as well.")
    else:
        parts.append("No single account makes up most of it.")
    if one.hidden:
        parts.append(
            "The others spend the same time in accounts that hold work and waiting alike, so the gain "
            "is an upper bound."
        )
    if work.marked and not one.hidden:
        waits = work.waiting.mean(axis=1) / 1e6
        others = np.setdiff1d(np.arange(len(work.ranks)), one.rows)
        parts.append(
            f"{it} {milliseconds(float(waits[one.rows].mean()))} a step for the others, which wait "
            f"{milliseconds(float(np.median(waits[others])))}."
        )
    if work.blind:
        parts.append(
            "Only the host clock was available: the wait may hide behind the device's work."
        )
    if work.left_out:
        left = ranks_text(sorted(work.left_out))
        parts.append(f"{left[:1].upper()}{left[1:]} could not be compared.")
    return " ".join(parts)


def _hidden_by_another(one: Straggler, comparison: Comparison) -> str:
    """Say that a repair of this one alone wins little where another rank is slower still."""
    worst = max(comparison.stragglers, key=lambda other: other.excess_ns)
    if worst is one or one.late_share is not None:
        return ""
    slower = ranks_text(comparison.ranks_of(worst.rows), worst.node)
    verb = "take" if len(worst.rows) > 1 else "takes"
    return f" To repair this alone wins little, since {slower} {verb} longer still."


RULE: Final = Rule(
    topic="ranks that the others wait for",
    kinds=STRAGGLER_KINDS,
    examine=straggler,
    missing=needs_peers,
)
