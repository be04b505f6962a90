"""What is said of the runs, before and after: any worse verdict is worse, an unknown one is never best."""

from collections.abc import Sequence
from typing import Final

from traintrace_analysis.comparison.model import ComparedRun, FindingChange, FindingTurn

_RANK: Final = {"none": 0, "info": 1, "warning": 2, "critical": 3}
_EXAMINED: Final = ("clean", "finding")
_TURNS: Final[tuple[FindingTurn, ...]] = ("worse", "appeared", "unknown", "better", "gone", "same")


def finding_changes(
    a: Sequence[ComparedRun], b: Sequence[ComparedRun]
) -> tuple[FindingChange, ...]:
    """Compare the findings by kind, the worst turn first."""
    kinds: dict[str, str] = {}
    for run in (*a, *b):
        for found in run.findings:
            kinds.setdefault(found.kind, found.family)
    changes = [_change(kind, family, a, b) for kind, family in kinds.items()]
    return tuple(
        sorted(
            changes,
            key=lambda one: (
                _TURNS.index(one.turn),
                -max(one.before_cost_s or 0.0, one.after_cost_s or 0.0),
            ),
        )
    )


def _change(
    kind: str, family: str, a: Sequence[ComparedRun], b: Sequence[ComparedRun]
) -> FindingChange:
    before, after = _severity(kind, family, a), _severity(kind, family, b)
    return FindingChange(
        kind=kind,
        family=family,
        before=before,
        after=after,
        turn=_turn(before, after),
        before_cost_s=_cost(kind, a),
        after_cost_s=_cost(kind, b),
    )


def _turn(before: str, after: str) -> FindingTurn:
    if "unknown" in (before, after):
        return "unknown"
    if before == after:
        return "same"
    if _RANK[after] > _RANK[before]:
        return "appeared" if before == "none" else "worse"
    return "gone" if after == "none" else "better"


def _severity(kind: str, family: str, runs: Sequence[ComparedRun]) -> str:
    """Give the severity that at least half of the examined runs reach; "unknown" if none was examined."""
    reached = sorted(
        (rank for run in runs if (rank := _one(kind, family, run)) is not None), reverse=True
    )
    if not reached:
        return "unknown"
    rank = reached[(len(reached) - 1) // 2]
    return next(name for name, value in _RANK.items() if value == rank)


def _one(kind: str, family: str, run: ComparedRun) -> int | None:
    named = [_RANK[found.severity] for found in run.findings if found.kind == kind]
    if named:
        return max(named)
    return 0 if run.families.get(family) in _EXAMINED else None


def _cost(kind: str, runs: Sequence[ComparedRun]) -> float | None:
    costs = [sum(one.cost_s for one in run.findings if one.kind == kind) for run in runs]
    return sum(costs) / len(costs) if any(costs) else None
