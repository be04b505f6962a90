"""What rules about resources share: whom they look at, and findings that cost no seconds by themselves."""

from collections.abc import Mapping, Sequence

from traintrace.facts import RankFacts
from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding, Severity


def recorded(context: Context) -> tuple[RankFacts, ...]:
    """Give the ranks of the window; the one that is there if none has a step."""
    return context.window.facts or (context.rank,)


def observed(
    kind: str,
    family: str,
    severity: Severity,
    confidence: float,
    ranks: Sequence[int],
    evidence: Mapping[str, float | int | str | None],
    headline: str,
    why: str,
    action: str,
) -> Finding:
    """Make a finding whose cost in time was not measured, or is none."""
    return Finding(
        id=kind.lower().replace("_", "-"),
        kind=kind,
        family=family,
        severity=severity,
        confidence=confidence,
        ranks=tuple(ranks),
        evidence=evidence,
        cost_s=0.0,
        cost_basis="run",
        gain=None,
        headline=headline,
        why=why,
        action=action,
    )
