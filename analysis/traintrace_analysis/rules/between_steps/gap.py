"""Time between steps that nobody marked."""

from dataclasses import dataclass
from typing import Final

from traintrace.facts import EPOCH_FIRST
from traintrace_analysis.context import NS_PER_S, Context, grade_of_wall
from traintrace_analysis.efficiency.lines import profiling_ns
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.between_steps.apart import named_apart_ns
from traintrace_analysis.rules.between_steps.rhythm import Pauses, is_fixed_cost, pauses_of
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import sync_caution
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, seconds

# The sum is exact; that one cause stands behind it is not.
_CONFIDENCE: Final = 0.9
_UNMARKED: Final = ("gap", "callbacks", "user")
_TOLD: Final = {
    "gap": "code without a mark",
    "callbacks": "hooks of other callbacks",
    "user": "your regions",
}


@dataclass(frozen=True, slots=True)
class _Unmarked:
    """Seconds between steps by account, and seconds that other findings name."""

    parts: dict[str, float]
    apart_s: float

    @property
    def cost_s(self) -> float:
        return sum(self.parts.values())

    @property
    def largest(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])


def gap(context: Context) -> list[Finding]:
    """Find time between steps that is no evaluation, checkpoint, logging or start of an epoch."""
    found = _measure(context)
    totals, wall_s = context.rank.totals, context.rank.totals.wall_ns / NS_PER_S
    if not (found.cost_s > 0.0 and wall_s > 0.0):
        return []
    share = found.cost_s / wall_s
    severity = grade_of_wall(share, "gap", found.cost_s)
    if severity is None:
        return []
    pauses = pauses_of(context, found.largest)
    confidence = _CONFIDENCE * (
        limit("host_clock_sync_trust") if context.window.accelerator else 1.0
    )
    if confidence < limit("confidence_to_name") or is_fixed_cost(pauses, found.cost_s):
        severity = "info"
    region = _largest_region(context) if found.largest == "user" else None
    return [
        Finding(
            id="gap",
            kind="GAP",
            family="between_steps",
            severity=severity,
            confidence=confidence,
            ranks=context.window.ranks,
            evidence={
                "share_of_wall": share,
                **{f"{name}_s": spent for name, spent in found.parts.items()},
                "pauses_count": None if pauses is None else pauses.number,
                "pause_ms": None if pauses is None else pauses.each_ms,
                "every_steps": None if pauses is None else pauses.every,
                "region": region,
                "wall_s": wall_s,
            },
            cost_s=found.cost_s,
            cost_basis="run",
            gain=without(totals, found.cost_s, upper_bound=True),
            headline=f"{percent(share)} of the run passes between steps, in {_TOLD[found.largest]}.",
            why=_why(context, found, pauses, wall_s),
            action=_action(found.largest, region, pauses, at_epochs=_at_epochs(context, pauses)),
        )
    ]


def _measure(context: Context) -> _Unmarked:
    totals, apart = context.rank.totals, named_apart_ns(context)
    between = {
        name: totals.account_ns.get(name, 0) - totals.inside_ns.get(name, 0) for name in _UNMARKED
    }
    between["callbacks"] -= profiling_ns(
        context.rank
    )  # the run was told to profile, and pays it once
    parts = {
        name: (ns - apart.get(name, 0.0)) / NS_PER_S
        for name, ns in between.items()
        if ns - apart.get(name, 0.0) > 0.0
    }
    return _Unmarked(parts, sum(apart.get(name, 0.0) for name in _UNMARKED) / NS_PER_S)


def _why(context: Context, found: _Unmarked, pauses: Pauses | None, wall_s: float) -> str:
    why = f"{seconds(found.cost_s)} of {seconds(wall_s)}"
    if len(found.parts) > 1:
        told = sorted(found.parts, key=lambda name: -found.parts[name])
        why += ": " + ", ".join(f"{seconds(found.parts[name])} in {_TOLD[name]}" for name in told)
    why += "."
    if pauses is not None:
        why += f" It comes {pauses.told()}"
        why += ", where epochs end." if _at_epochs(context, pauses) else "."
    if found.apart_s > 0.0:
        why += f" {seconds(found.apart_s)} more of it have a finding of their own."
    if context.window.accelerator and not context.blind:
        why += " The device may have been busy meanwhile with work that was queued before."
    return why + sync_caution(context)


def _action(largest: str, region: str | None, pauses: Pauses | None, *, at_epochs: bool) -> str:
    if largest == "user":
        where = f"your region {region!r}" if region else "your regions"
        return f"Look into {where}: do less there, or do it less often."
    if largest == "callbacks":
        return (
            "Find the callback whose hooks between steps and epochs are slow: take callbacks out one by "
            "one, or put traintrace.region(name) into their hooks."
        )
    mark = (
        'Mark it to learn what it is: tracer.evaluating(), tracer.checkpointing(), tracer.phase("logging") '
        "or traintrace.region(name)."
    )
    if pauses is not None and pauses.is_even:
        return (
            "Look at what the loop does after each update: .item() and printing, metrics, a progress "
            "bar, a scheduler. " + mark
        )
    when = "when an epoch ends" if at_epochs else "at those moments"
    return f"Look at what the loop does {when}: a validation, saving, plots, uploads. {mark}"


def _at_epochs(context: Context, pauses: Pauses | None) -> bool:
    """Tell whether nearly all of the pauses lie before the first step of an epoch."""
    window, row = context.window, context.row
    spent = window.between.get("gap")
    if pauses is None or pauses.is_even or spent is None or not spent[row].sum() > 0.0:
        return False
    first = (window.flags[row] & EPOCH_FIRST) != 0
    return float(spent[row][first].sum()) >= 0.9 * float(spent[row].sum())


def _largest_region(context: Context) -> str | None:
    """Name the region with most time in rows that have `user` time between their steps."""
    rows = {span.step for span in context.rank.spans if span.account == "user" and not span.inside}
    sums: dict[str, int] = {}
    for region in context.rank.regions:
        if region.step in rows:
            sums[region.name] = sums.get(region.name, 0) + region.ns
    return max(sums, key=lambda name: sums[name]) if sums else None


RULE: Final = Rule(
    topic="time between steps",
    kinds=(
        Kind(
            name="GAP",
            means="Time passes between a step's end and the next request for a batch, in code nobody marked.",
            fires=(
                "Such code, hooks of callbacks and regions between steps take a tenth of the run or more, "
                "and half a second or more, in pauses longer than the Python around any step."
            ),
            never=(
                "What the code does, or that all of it can go: the gain is an upper bound. Where an "
                "accelerator trains it is an observation, since the host may be waiting there for the device."
            ),
            action="Mark what runs between the steps, then look at the part that is largest.",
            limits=(
                "gap_share_warning",
                "gap_share_critical",
                "between_loss_floor",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_sync_trust",
            ),
        ),
    ),
    examine=gap,
)
