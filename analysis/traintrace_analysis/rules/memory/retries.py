"""Allocations that found no room at first: the allocator frees its cache, waits for the device, tries again."""

import re
from typing import Final

from traintrace.facts import Event, RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import steady_span
from traintrace_analysis.replay import without
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, seconds

_EVENT: Final = "allocator_retry"
_CONFIDENCE: Final = 0.95
_COUNT: Final = re.compile(r"\s*(\d+)")


def count_retries(context: Context, rank: RankFacts) -> int:
    """Give the number of retries of a rank in its steady steps."""
    return sum(_told(event) for event in _steady_events(context, rank))


def allocator_retries(context: Context) -> list[Finding]:
    """Find ranks whose allocator had to free its cache again and again."""
    counts = {rank.rank: n for rank in recorded(context) if (n := count_retries(context, rank))}
    if not counts or max(counts.values()) < limit("retries_minimum"):
        return []
    worst = max(counts, key=lambda rank: counts[rank])
    facts = next(rank for rank in recorded(context) if rank.rank == worst)
    lengths = [event.duration_ns for event in _steady_events(context, facts)]
    timed = all(length is not None for length in lengths)
    cost_s = sum(length or 0 for length in lengths) / NS_PER_S if timed else 0.0
    steps = context.window.steady_steps
    often = counts[worst] >= limit("retries_per_step_warning") * steps
    took = f", {seconds(cost_s)} in all" if timed else "; how long they took was not measured"
    return [
        Finding(
            id="allocator-retries",
            kind="ALLOCATOR_RETRIES",
            family="memory",
            severity="warning" if often else "info",
            confidence=_CONFIDENCE,
            ranks=tuple(counts),
            evidence={
                "retries_count": counts[worst],
                "retries_per_step": counts[worst] / steps if steps else None,
                "retries_s": cost_s if timed else None,
                "worst_rank": worst,
            },
            cost_s=cost_s,
            cost_basis="run",
            gain=without(facts.totals, cost_s, upper_bound=True),
            headline=f"The device allocator ran out of room {count(counts[worst], 'time')} and had to try again.",
            why=(
                f"Rank {worst}: {counts[worst]:,} retries in "
                f"{count(steps, 'steady step')}{took}. Each frees the cached memory, which waits for the device, and "
                "allocates anew."
            ),
            action="Lower the peak a little (a smaller batch with more accumulation, activation checkpointing), "
            "or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        )
    ]


def _steady_events(context: Context, rank: RankFacts) -> list[Event]:
    window = context.window
    row = window.ranks.index(rank.rank) if rank.rank in window.ranks else None
    span = None if row is None else steady_span(window, row)
    return [
        event
        for event in rank.events
        if event.kind == _EVENT and (span is None or span[0] <= event.at_ns <= span[1])
    ]


def _told(event: Event) -> int:
    """Give how many retries an event stands for: "3 more" since the look before."""
    match = _COUNT.match(event.detail)
    return int(match.group(1)) if match else 1


def _missing(context: Context) -> str:
    ranks = recorded(context)
    if any(event.kind == _EVENT for rank in ranks for event in rank.events):
        return ""
    reasons = [rank.unmeasured[_EVENT] for rank in ranks if _EVENT in rank.unmeasured]
    if reasons:
        return f"retries of the allocator ({reasons[0]})"
    return "" if context.window.accelerator else "retries of the allocator (no device memory)"


RULE: Final = Rule(
    topic="retries of the allocator",
    kinds=(
        Kind(
            name="ALLOCATOR_RETRIES",
            means="Device memory was so short that the allocator freed its cache and tried again.",
            fires="Three retries or more in the steady steps; a warning from one in a hundred steps on.",
            never="Seconds, where their length was not measured: the cost is then 0 and says so.",
            action="Lower the memory peak a little, or use expandable segments.",
            limits=("retries_minimum", "retries_per_step_warning"),
        ),
    ),
    examine=allocator_retries,
    missing=_missing,
)
