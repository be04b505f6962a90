"""Ranks that left no record, or whose record ends long before the others'."""

from dataclasses import dataclass, replace
from typing import Final

from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.ranks.wording import ranks_text
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, seconds

_KIND: Final = "SILENT_RANK"
# That the record ends is certain; that the rank does not merely write late is not quite.
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class _End:
    """Where a rank's record ends: moment of its last entry and last completed step."""

    rank: int
    at_ns: int
    step: int
    status: str


def silent_rank(context: Context) -> list[Finding]:
    """Find ranks of the job that are missing, or that fell silent."""
    window = context.window
    ends = [_end(facts) for facts in window.facts]
    return [*_never_seen(window, ends), *_fell_silent(ends)]


def _end(facts: RankFacts) -> _End:
    totals = facts.totals
    return _End(facts.rank, totals.start_ns + totals.wall_ns, totals.last_step, facts.status)


def _never_seen(window: StepWindow, ends: list[_End]) -> list[Finding]:
    """Give the finding about expected ranks without a completed step."""
    absent = [rank for rank in window.expected_ranks if rank not in window.ranks]
    if not absent or not ends:
        return []
    recorded_s = max(facts.totals.wall_ns for facts in window.facts) / NS_PER_S
    steps = max(end.step for end in ends)
    live = any(end.status == "running" for end in ends)
    if live and (recorded_s < limit("silent_seconds") or steps < limit("silent_steps")):
        return []  # they may have started later, or not yet published
    alone = len(window.ranks) == 1
    who = ranks_text(absent)
    seen = count(len(window.ranks), "rank")
    return [
        _finding(
            "silent-rank",
            tuple(absent),
            # One rank that is traced alone is how many people trace; they need no alarm.
            severe=not alone,
            evidence={
                "ranks_expected": len(window.expected_ranks),
                "ranks_seen": len(window.ranks),
            },
            headline=f"{who[:1].upper()}{who[1:]} left no completed step.",
            why=(
                f"The job has {len(window.expected_ranks)} ranks; {seen} recorded {count(steps, 'step')} "
                f"in {seconds(recorded_s)}. Nothing is known about the rest, so no rank can be called "
                "faster or slower than they are."
            ),
            action=(
                "If it was meant, nothing. Else start the tracer on every rank, and look into the output of "
                "those that are missing."
            ),
        )
    ]


def _fell_silent(ends: list[_End]) -> list[Finding]:
    """Give the finding about ranks whose record ends long before the others'."""
    if len(ends) < 2:
        return []
    latest_ns = sorted(end.at_ns for end in ends)[len(ends) // 2]
    front = sorted(end.step for end in ends)[len(ends) // 2]
    quiet = [
        end
        for end in ends
        if end.status != "completed"
        and (latest_ns - end.at_ns) / NS_PER_S >= limit("silent_seconds")
        and (front - end.step >= limit("silent_steps") or end.status != "running")
    ]
    if not quiet:
        return []
    first = min(quiet, key=lambda end: (end.step, end.at_ns, end.rank))
    before_s = (latest_ns - first.at_ns) / NS_PER_S
    who = ranks_text([end.rank for end in quiet])
    return [
        _finding(
            "silent-rank-2",
            tuple(end.rank for end in quiet),
            severe=True,
            evidence={
                "first_silent_rank": first.rank,
                "last_step": first.step,
                "last_step_of_others": front,
                "silent_s": before_s,
                "status": first.status,
            },
            headline=f"{who[:1].upper()}{who[1:]} fell silent {seconds(before_s)} before the others ended.",
            why=(
                f"Rank {first.rank} wrote last after step {first.step} and is {first.status}; half of the "
                f"ranks reached step {front}. What all ranks have in common ends there."
            ),
            action=(
                f"Look into the output of rank {first.rank} around step {first.step}, and at its machine: "
                "out of memory, a lost device, a killed process."
            ),
        )
    ]


def _finding(
    name: str,
    ranks: tuple[int, ...],
    *,
    severe: bool,
    evidence: dict[str, float | int | str | None],
    headline: str,
    why: str,
    action: str,
) -> Finding:
    severity: Severity = "warning" if severe else "info"
    found = observed(_KIND, "ranks", severity, _CONFIDENCE, ranks, evidence, headline, why, action)
    return replace(found, id=name)


def _needs_ranks(context: Context) -> str:
    one = len(context.window.expected_ranks) < 2
    return "differences between ranks (one rank trains)" if one else ""


RULE: Final = Rule(
    topic="silent ranks",
    kinds=(
        Kind(
            name=_KIND,
            means="A rank of the job left no record, or stopped recording long before the others.",
            fires=(
                "An expected rank has no completed step (in a live run, after two minutes), or a rank that did "
                "not end in order wrote its last entry two minutes or more before half of the others; in a "
                "live run it has to be ten steps behind as well."
            ),
            never="Why it fell silent, nor that it is slow: a rank that is one write behind is not silent.",
            action="Look into the output and at the machine of that rank.",
            limits=("silent_seconds", "silent_steps"),
        ),
    ),
    examine=silent_rank,
    missing=_needs_ranks,
    needs_steps=False,
)
