"""Steps that wait for one rank, each time another."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.ranks import Comparison
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.ranks.wording import (
    comparison_of,
    needs_peers,
    path_of,
    whole_run,
)
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, milliseconds, percent

_SHOWN: Final = 8


def rotating_straggler(context: Context) -> list[Finding]:
    """Find late rounds that no single rank is to blame for."""
    comparison = comparison_of(context)
    rotation, work, cause = comparison.rotation, comparison.work, comparison.taking_turns
    load = comparison.load
    if cause is None or (load is not None and load.share >= rotation.share):
        return []
    cost_s, basis = whole_run(context, float(rotation.lost.mean()))
    each_ms = float(rotation.lost[rotation.late].mean()) / 1e6
    small = float(rotation.lost.mean()) / 1e6 < limit("straggler_loss_floor")
    critical = rotation.share >= limit("straggler_share_critical") and not work.sharded
    shares = {work.ranks[row]: float(share) for row, share in enumerate(rotation.by_row)}
    return [
        Finding(
            id="rotating-straggler",
            kind="ROTATING_STRAGGLER",
            family="ranks",
            severity=(
                "info" if small else "critical" if critical and not work.blind else "warning"
            ),
            confidence=0.9 * context.sync_trust,
            ranks=work.ranks,
            evidence={
                "share": rotation.share,
                "late_share": rotation.late_share,
                "late_by_chance_share": rotation.by_chance,
                "excess_when_late_ms": each_ms,
                "cause": cause.account,
                "cause_covers_share": cause.covered if cause.account else None,
                "step_time_ms": float(work.step.mean()) / 1e6,
                **{f"last_share_rank_{rank}": share for rank, share in _often(shares)},
            },
            cost_s=cost_s,
            cost_basis=basis,
            gain=replay(
                context.window,
                rotation.excess,
                clock=work.clock,
                upper_bound=True,
                path=path_of(work, comparison.path),
            ),
            headline=(
                f"In {percent(rotation.late_share)} of the steps one rank keeps the others waiting, each "
                f"time another: {percent(rotation.share)} of step time"
                + (f", mostly by {cause.account}." if cause.account else ".")
            ),
            why=_why(comparison, each_ms, shares),
            action=(
                "Look for what hits one rank at a time: uneven batches, garbage collection (gc.freeze(), then "
                "gc.collect() on all ranks at the same step), neighbours on the machine."
            ),
        )
    ]


def _often(shares: dict[int, float]) -> list[tuple[int, float]]:
    """Give the ranks that were last most often."""
    return sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]


def _why(comparison: Comparison, each_ms: float, shares: dict[int, float]) -> str:
    times = [f"rank {rank} {percent(share)}" for rank, share in _often(shares) if share > 0.0]
    more = f" (the {_SHOWN} most frequent of {len(shares)})" if len(shares) > _SHOWN else ""
    cause = comparison.taking_turns
    account = ""
    if cause is not None and cause.account is not None:
        account = f" Of that, {percent(min(1.0, cause.covered))} is {cause.account}."
    return (
        f"A late step loses {milliseconds(each_ms)}.{account} Of the late steps: {listed(times)}{more}. No rank "
        "carries most of it, so none is blamed."
    )


RULE: Final = Rule(
    topic="stragglers that rotate",
    kinds=(
        Kind(
            name="ROTATING_STRAGGLER",
            means="Many steps wait for one rank, but each time for another.",
            fires=(
                "Steps in which a rank is far outside the ordinary spread cost 5 % of step time or more, if "
                "they are a quarter of the steps; 10 % or more if they are fewer. All ranks pay for the "
                "slowest: hiccups that each of many ranks has rarely hit nearly every step."
            ),
            never="That a rank is slow, nor that the work is uneven: batches, collections, neighbours look alike.",
            action="Even out batches; collect garbage on all ranks at the same step.",
            limits=(
                "rotating_late_share",
                "rotating_share_warning",
                "rotating_outlier",
                "rotating_excess",
                "rotating_seldom_share",
                "rotating_seldom_confidence",
                "carrier_share",
                "carrier_episodes",
                "straggler_loss_floor",
            ),
        ),
    ),
    examine=rotating_straggler,
    missing=needs_peers,
)
