"""The last look over the findings: causes that lie behind others leave out the seconds that those name.

Most findings say where time went, so the rules divide it among them. Too few cores, a clock that is held
back and an allocator that tries again say why it took so long there: their seconds lie in accounts that
other findings may name already. They are spread over the run as far as anybody knows, so a finding that
names a third of it names a third of them; what one rank adds to the others is taken to be all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.efficiency.summaries import settle_summaries
from traintrace_analysis.rules.stages.beside_steps import leave_to_stages
from traintrace_analysis.wording import listed, seconds

_STRAGGLERS: Final = frozenset(
    ("INPUT_STRAGGLER", "H2D_STRAGGLER", "COMPUTE_STRAGGLER", "BACKWARD_STRAGGLER", "STRAGGLER")
)
_ON_DEVICE: Final = frozenset(("H2D_BOUND", "OPTIMIZER_HEAVY", "BACKWARD_HEAVY"))
_ON_HOST: Final = _ON_DEVICE | {
    "RESIDUAL_HEAVY", "DRIFT", "WARMUP_COST", "EPOCH_START_COST", "EVALUATION_COST", "CHECKPOINT_COST",
    "LOGGING_COST", "GC_PAUSES", "RECOMPILES", "GAP", "ROTATING_STRAGGLER", "LOAD_IMBALANCE",
    "COMM_BOUND", "EXPOSED_COMM", "PIPELINE_BUBBLE",
}  # fmt: skip


def _beside_cores(context: Context) -> frozenset[str]:
    # A loader without workers works on the training thread; else that sleeps and asks for no core.
    workers = context.rank.setup.loader.workers
    return _ON_HOST if workers else _ON_HOST | {"INPUT_BOUND"}


def _beside_clocks(context: Context) -> frozenset[str]:
    del context
    return _ON_DEVICE


def _beside_allocator(context: Context) -> frozenset[str]:
    del context
    return _ON_DEVICE | {"JITTER", "DRIFT", "RESIDUAL_HEAVY"}


# Kinds that lie behind others, in the order in which they are settled, and the kinds that may hold them.
_BEHIND: Final[Mapping[str, Callable[[Context], frozenset[str]]]] = {
    "GPU_THROTTLED": _beside_clocks,
    "ALLOCATOR_RETRIES": _beside_allocator,
    "CPU_OVERSUBSCRIBED": _beside_cores,
}


@dataclass(frozen=True, slots=True)
class _Overlap:
    """Seconds of a finding that others name, and the kinds of these."""

    cost_s: float
    kinds: tuple[str, ...]


def settle(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Give the findings with costs that name no second twice."""
    settled = leave_to_stages(context, findings)
    for kind, beside in _BEHIND.items():
        for place, one in enumerate(settled):
            if one.kind == kind:
                others = [
                    f for f in settled if f is not one and f.severity != "info" and f.cost_s > 0.0
                ]
                settled[place] = _without(one, _overlap(context, one, others, beside(context)))
    return settle_summaries(settled)


def _overlap(
    context: Context, one: Finding, others: Sequence[Finding], kinds: frozenset[str]
) -> _Overlap:
    """Estimate which seconds of a cause lie in what others name."""
    wall_s = context.rank.totals.wall_ns / NS_PER_S
    same = [f for f in others if f.kind in _STRAGGLERS and set(f.ranks) & set(one.ranks)]
    spread = [f for f in others if f.kind in kinds]
    apart = [f for f in others if f not in same and f not in spread]
    direct_s = min(one.cost_s, _sum(same))
    room_s = max(wall_s - _sum(same) - _sum(apart), 0.0)
    part = min(1.0, _sum(spread) / room_s) if room_s > 0.0 else 1.0
    spread_s = part * (one.cost_s - direct_s)
    # The run has no more seconds than it has, whatever each of them was estimated at.
    most_s = max(0.0, wall_s - _sum(others))
    named_s = max(direct_s + spread_s, one.cost_s - most_s)
    return _Overlap(named_s, tuple(dict.fromkeys(f.kind for f in (*same, *spread))))


def _without(one: Finding, overlap: _Overlap) -> Finding:
    evidence = {**one.evidence, "named_elsewhere_s": overlap.cost_s}
    if not overlap.cost_s > 0.0:
        return replace(one, evidence=evidence)
    verb = "names" if len(overlap.kinds) == 1 else "name"
    where = f"lie in what {listed(overlap.kinds)} {verb}" if overlap.kinds else "have other names"
    return replace(
        one,
        evidence=evidence,
        cost_s=max(0.0, one.cost_s - overlap.cost_s),
        why=f"{one.why} About {seconds(overlap.cost_s)} of these seconds {where} and are counted there.",
    )


def _sum(findings: Sequence[Finding]) -> float:
    return sum(finding.cost_s for finding in findings)
