"""Ranks that do more because they were given more."""

from typing import Final

import numpy as np

from traintrace_analysis.columns import Aligner
from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.ranks.load import Load
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.ranks.wording import (
    comparison_of,
    needs_peers,
    path_of,
    ranks_text,
    whole_run,
)
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.step_window import Floats, Ints
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent

_NAMES: Final = {"padded_tokens": "padded tokens", "tokens": "tokens", "samples": "samples"}


def load_imbalance(context: Context) -> list[Finding]:
    """Find own work that differs as the amounts of data do."""
    comparison = comparison_of(context)
    load, work = comparison.load, comparison.work
    if load is None or load.share < limit("straggler_share_warning"):
        return []
    lost = load.excess.max(axis=0) - np.median(load.excess, axis=0)
    if lost.mean() / 1e6 < limit("straggler_loss_floor"):
        return []
    surplus = np.clip(load.excess, 0.0, None)
    # Of ranks with even batches, too, one is the slowest in each step: that is not lost to the load.
    shorter = work.own.max(axis=0) - (work.own - surplus).max(axis=0)
    cost_s, basis = whole_run(context, float(shorter.mean()))
    heavy = _always_heavy(load, lost)
    ranks = comparison.ranks_of(heavy) if len(heavy) else work.ranks
    name = _NAMES[load.amount]
    critical = load.share >= limit("straggler_share_critical")
    whose = (
        f"{ranks_text(ranks)} always gets most" if len(heavy) else "which rank gets most changes"
    )
    return [
        Finding(
            id="load-imbalance",
            kind="LOAD_IMBALANCE",
            family="ranks",
            severity="critical" if critical and not work.sharded else "warning",
            confidence=min(0.95, 0.5 + 0.5 * load.explained) * context.sync_trust,
            ranks=ranks,
            evidence={
                "share": load.share,
                "amount": load.amount,
                "explained_share": load.explained,
                "slope_ratio": load.slope,
                "largest_over_median_ratio": 1.0 + load.spread,
                "excess_ms": float(lost.mean()) / 1e6,
                "step_time_ms": float(work.step.mean()) / 1e6,
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(
                context.window,
                surplus,
                clock=work.clock,
                path=path_of(work, work.own),
            ),
            headline=(
                f"Uneven batches cost {percent(load.share)} of step time: ranks wait for the one with "
                f"most {name}."
            ),
            why=_why(load, work, float(lost.mean()) / 1e6, whose, name),
            action=(
                "Give every rank as much: batch by a token budget or bucket by length with one order for "
                "all ranks, and drop or pad the last, shorter batch."
            ),
        )
    ]


def _always_heavy(load: Load, lost: Floats) -> Ints:
    """Give the rows that have most nearly all the time: half of the loss on average or more."""
    means = load.excess.mean(axis=1)
    return np.flatnonzero(means - np.median(means) >= 0.5 * lost.mean())


def _why(load: Load, work: OwnWork, lost_ms: float, whose: str, name: str) -> str:
    return (
        f"The fullest rank has {percent(load.spread)} more {name} than the median one, and {whose}. That "
        f"explains {percent(load.explained)} of how their own work differs, {milliseconds(lost_ms)} of a step "
        f"of {milliseconds(float(work.step.mean()) / 1e6)}. No machine is blamed for it."
    )


def _needs_amounts(context: Context) -> str:
    window = context.window
    unknown = bool(np.isnan(window.samples).all() and np.isnan(window.tokens).all())
    unknown = unknown and Aligner(window.facts, window.steps).floats("padded_tokens") is None
    why = "amounts of data per rank (the sizes of the batches are not known)" if unknown else ""
    return needs_peers(context) or why


RULE: Final = Rule(
    topic="amounts of data per rank",
    kinds=(
        Kind(
            name="LOAD_IMBALANCE",
            means="Ranks get different amounts of data, and all wait for the one with most.",
            fires=(
                "Samples or tokens per rank and step explain half or more of how own work differs, and the "
                "difference costs 3 % of step time or more."
            ),
            never="Anything where the batches' sizes are not known. It replaces blame of the rank with most.",
            action="Batch by a token budget, or bucket by length in one order for all ranks.",
            limits=(
                "load_explained",
                "load_spread",
                "straggler_share_warning",
                "straggler_share_critical",
            ),
        ),
    ),
    examine=load_imbalance,
    missing=_needs_amounts,
)
