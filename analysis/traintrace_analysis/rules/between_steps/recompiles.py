"""Graphs that are compiled again while training."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from traintrace.facts import COMPILED_KNOWN, Event
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.replay import without
from traintrace_analysis.rules.between_steps.incidents import (
    is_first,
    measure_compilations,
    own_compilations,
    seen_by_who_compiles_most,
)
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.wording import count, percent, seconds

# Each compilation was clocked; only the choice of the limit is debatable.
_CONFIDENCE: Final = 0.95
_SHAPES: Final = ("size", "shape", "stride", "dynamic")


def recompiles(context: Context) -> list[Finding]:
    """Find runs that go on compiling after their warm-up."""
    found = measure_compilations(context)
    severity = found.severity(context, "recompiles")
    if severity is None:
        return []
    totals, most = context.rank.totals, seen_by_who_compiles_most(context)
    own = own_compilations(most)
    events = own.events
    wall_s = totals.wall_ns / NS_PER_S
    again = [event for event in events if not is_first(event)]
    steps = sorted(event.step for event in events)
    span = f"step {steps[0]:,}" if steps[0] == steps[-1] else f"steps {steps[0]:,} to {steps[-1]:,}"
    reason = _commonest_reason(again)
    why = (
        f"{count(len(events), 'compilation')} after the warm-up, at {span}, took {seconds(found.cost_s)} "
        f"of {seconds(wall_s)}"
    )
    if len(again) < len(events):
        why += f"; {len(events) - len(again)} of them the first of their code"
    if found.between_s > 0.0:
        why += f"; {seconds(found.between_s)} of it between steps, as in evaluation"
    why += f". Torch gives as reason: {reason}." if reason else "."
    if found.cost_s > 1.1 * own.cost_s:
        why += (
            f" These are rank {most.rank.rank}'s own, which take {seconds(own.cost_s)}; other ranks compile at "
            "other steps, and each time all wait."
        )
    return [
        Finding(
            id="recompiles",
            kind="RECOMPILES",
            family="between_steps",
            severity=severity,
            confidence=_CONFIDENCE,
            ranks=context.window.ranks,
            evidence={
                "share_of_wall": found.cost_s / wall_s,
                "compilations_count": len(events),
                "recompilations_count": len(again),
                "between_steps_s": found.between_s,
                "first_step": steps[0],
                "last_step": steps[-1],
                "reason": reason or None,
            },
            cost_s=found.cost_s,
            cost_basis="run",
            gain=without(totals, found.cost_s),
            headline=f"torch.compile goes on compiling: {percent(found.cost_s / wall_s)} of the run after the warm-up.",
            why=why,
            action=_action(again, reason),
        )
    ]


def _commonest_reason(events: Sequence[Event]) -> str:
    """Give the reason that torch gave most often; "" if it gave none."""
    reasons = Counter(event.detail.partition(": ")[2] for event in events if ": " in event.detail)
    return reasons.most_common(1)[0][0].rstrip(".") if reasons else ""


def _action(again: Sequence[Event], reason: str) -> str:
    if not again:
        return (
            "Different code is compiled late, for instance the model in evaluation mode: run it once "
            "before the loop, or leave it uncompiled where it runs seldom."
        )
    told = "" if reason else " TORCH_LOGS=recompiles tells which input changes."
    if reason and not any(word in reason.lower() for word in _SHAPES):
        return (
            "Keep what the reason names constant, or take it out of the compiled function; "
            "TORCH_LOGS=recompiles lists every guard that failed."
        )
    return (
        "Pad batches to a few fixed shapes (drop_last=True for the last one), or call "
        "torch._dynamo.mark_dynamic on the dimension that changes." + told
    )


def _missing(context: Context) -> str:
    if "compilation" in context.rank.unmeasured:
        return f"compilations ({context.rank.unmeasured['compilation']})"
    ranks = context.window.facts or (context.rank,)
    seen = any(event.kind == "compilation" for rank in ranks for event in rank.events)
    if seen or (context.window.flags & COMPILED_KNOWN).any():
        return ""
    return "compilations (nobody watched them)"


RULE: Final = Rule(
    topic="recompilation",
    kinds=(
        Kind(
            name="RECOMPILES",
            means="Graphs are compiled again while training, because something about the inputs changes.",
            fires=(
                "Compilations after the warm-up take a twentieth of the run or more, and half a second "
                "or more. In a run that never stops compiling, those of code that was compiled before count."
            ),
            never="That compiling is not worth it: what the compiled code saves is not weighed against it.",
            action="Fixed shapes, or torch._dynamo.mark_dynamic; TORCH_LOGS=recompiles names the cause.",
            limits=("recompiles_share_warning", "recompiles_share_critical", "between_loss_floor"),
        ),
    ),
    examine=recompiles,
    missing=_missing,
    needs_steps=False,
)
