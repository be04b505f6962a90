"""What the first steps took longer than the others."""

from typing import Final

import numpy as np

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.between_steps.incidents import measure_compilations
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.unexamined import WARMUP_CAUSES, warmup_why
from traintrace_analysis.wording import count, percent, seconds

# The sums are exact; where the warm-up ends is a matter of statistics.
_CONFIDENCE: Final = 0.9


def warmup_cost(context: Context) -> list[Finding]:
    """Find a warm-up that takes much of the run, and enough time to be felt at each start.

    It is paid once, so a short run always has a large share of it: that alone is only mentioned.
    """
    window, row, first = context.window, context.row, context.window.warmup_steps
    wall_s = context.rank.totals.wall_ns / NS_PER_S
    if not first or not wall_s > 0.0:
        return []
    times = window.host["step_time"][row]
    usual_ns = float(np.median(times[first:]))
    excess_s = max(0.0, float(times[:first].sum()) - first * usual_ns) / NS_PER_S
    excess_s -= _first_fetches_s(context) + _compiled_again_s(context)
    share = excess_s / wall_s
    if share < limit("warmup_share_limit") or excess_s < limit("between_loss_floor"):
        return []
    why, account = warmup_why(window, row)
    usually = (
        f" In {account} it is usually {WARMUP_CAUSES[account]}." if account in WARMUP_CAUSES else ""
    )
    felt = excess_s >= limit("warmup_cost_floor")
    return [
        Finding(
            id="warmup-cost",
            kind="WARMUP_COST",
            family="step_time",
            severity="warning" if felt else "info",
            confidence=_CONFIDENCE,
            ranks=window.ranks,
            evidence={
                "share_of_wall": share,
                "warmup_steps": first,
                "warmup_s": float(times[:first].sum()) / NS_PER_S,
                "excess_s": excess_s,
                "usual_ms": usual_ns / 1e6,
                "slow_in": account or None,
                "wall_s": wall_s,
            },
            cost_s=excess_s,
            cost_basis="run",
            gain=without(context.rank.totals, excess_s, upper_bound=True),
            headline=f"The warm-up took {seconds(excess_s)} more than as many usual steps, {percent(share)} of the run.",
            why=f"{why} It is paid once for each start, and a longer run has no more of it.",
            action=(
                f"If runs restart often, shorten it; if this was a trial run, trace more than "
                f"{count(len(window.steps), 'step')}.{usually}"
            ),
        )
    ]


def _first_fetches_s(context: Context) -> float:
    """Give what the first fetches of epochs took of the warm-up; starting epochs is billed by itself."""
    if context.wait is None:
        return 0.0
    excess = context.wait.excess[context.row, : context.window.warmup_steps]
    return float(np.nansum(excess)) / NS_PER_S


def _compiled_again_s(context: Context) -> float:
    """Give what compilations that are a finding took of the warm-up, where the run began before the window."""
    window, found = context.window, measure_compilations(context)
    if not found.is_named(context, "recompiles"):
        return 0.0
    warm, between = (
        frozenset(window.steps[: window.warmup_steps].tolist()),
        frozenset(found.between),
    )
    inside = (event for event in found.events if event.step in warm and event not in between)
    return sum(event.duration_ns or 0 for event in inside) / NS_PER_S


def _missing(context: Context) -> str:
    steps = context.window.steps
    if len(steps) and int(steps[0]) > limit("warmup_search_start"):
        return f"warm-up (the steps looked at begin with number {int(steps[0]):,})"
    return ""


RULE: Final = Rule(
    topic="the warm-up",
    kinds=(
        Kind(
            name="WARMUP_COST",
            means="The first steps are much slower than the others, for compilation, caches or workers.",
            fires=(
                "What they take beyond the usual step is a tenth of the run or more, and half a minute or "
                "more; less than that is mentioned only."
            ),
            never="That the run is slow: a warm-up is paid once, and a short run has a large share of it.",
            action="Cache compiled code, warm the data up beforehand, restart less often; or trace longer.",
            limits=("warmup_share_limit", "warmup_cost_floor", "between_loss_floor"),
        ),
    ),
    examine=warmup_cost,
    missing=_missing,
)
