"""Python's garbage collector holding up training."""

from typing import Final

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.between_steps.incidents import measure_collections
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.wording import count, milliseconds, percent, seconds

# Each collection was clocked; only the choice of the limit is debatable.
_CONFIDENCE: Final = 0.95


def gc_pauses(context: Context) -> list[Finding]:
    """Find runs that lose much of their time to collections on the training thread."""
    found = measure_collections(context)
    severity = found.severity(context, "gc")
    if severity is None:
        return []
    totals = context.rank.totals
    wall_s = totals.wall_ns / NS_PER_S
    longest_ms = max((event.duration_ns or 0 for event in found.events), default=0) / 1e6
    why = (
        f"{seconds(found.cost_s)} of {seconds(wall_s)} after the warm-up: {seconds(found.inside_s)} "
        f"inside steps, {seconds(found.between_s)} between them."
    )
    if found.events:
        why += f" {count(len(found.events), 'pause')} took a millisecond or more, the longest {milliseconds(longest_ms)}."
    ranks = len(context.window.ranks)
    if ranks > 1:
        why += (
            f" A rank loses {seconds(found.own_inside_s)} inside steps to its own pauses; since {ranks} "
            "ranks collect at different moments and wait for each other, they lose the sum above."
        )
    return [
        Finding(
            id="gc-pauses",
            kind="GC_PAUSES",
            family="between_steps",
            severity=severity,
            confidence=_CONFIDENCE,
            ranks=context.window.ranks,
            evidence={
                "share_of_wall": found.cost_s / wall_s,
                "inside_steps_s": found.inside_s,
                "own_inside_steps_s": found.own_inside_s,
                "between_steps_s": found.between_s,
                "pauses_count": len(found.events),
                "longest_ms": longest_ms if found.events else None,
                "whole_run_s": None if totals.gc_ns is None else totals.gc_ns / NS_PER_S,
            },
            cost_s=found.cost_s,
            cost_basis=found.basis,
            gain=without(totals, found.cost_s, basis=found.basis),
            headline=f"Python's garbage collector holds training up for {percent(found.cost_s / wall_s)} of the run.",
            why=why,
            action=_action(ranks),
        )
    ]


def _action(ranks: int) -> str:
    together = ", at the same step on every rank" if ranks > 1 else ""
    return (
        "Call gc.collect() and gc.freeze() once before the loop, so that model and data set are not "
        "searched again; or gc.disable() and gc.collect() every few hundred steps" + together + "."
    )


def _missing(context: Context) -> str:
    watched = context.window.gc_ns is not None or context.rank.totals.gc_ns is not None
    return "" if watched else "garbage collections (nobody watched them)"


RULE: Final = Rule(
    topic="garbage collection",
    kinds=(
        Kind(
            name="GC_PAUSES",
            means="Training stands still while Python looks for unreachable objects.",
            fires=(
                "Collections on the training thread take a twentieth of the run or more after the "
                "warm-up, and half a second or more. Over several ranks the slowest of each step counts."
            ),
            never=(
                "That memory leaks. Collections inside compilations, and those under a millisecond "
                "between steps, are left out."
            ),
            action="gc.freeze() before the loop, or collect by hand every few hundred steps.",
            limits=("gc_share_warning", "gc_share_critical", "between_loss_floor"),
        ),
    ),
    examine=gc_pauses,
    missing=_missing,
)
