"""The state of each family of causes: what was examined, and what was not and why."""

from collections.abc import Iterable, Sequence

from traintrace_analysis.context import Context
from traintrace_analysis.findings import FAMILIES, FamilyState, Finding
from traintrace_analysis.registry import REGISTRY, applicable
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.sufficiency import is_unsure, short_reason
from traintrace_analysis.wording import listed


def family_states(
    window: StepWindow, context: Context | None, findings: Sequence[Finding]
) -> dict[str, FamilyState]:
    """Say for every family what was found, or why nothing can be said."""
    states = {}
    for family in REGISTRY:
        own = [finding for finding in findings if finding.family == family.name]
        states[family.name] = (
            FamilyState("insufficient", short_reason(window), None)
            if context is None
            else _state(family, context, own)
        )
    return {family: states[family] for family in FAMILIES}


def _state(family: Family, context: Context, findings: Sequence[Finding]) -> FamilyState:
    """Give the strongest thing that can be said: a finding, no data, a doubt, a clean bill."""
    named = [finding for finding in findings if finding.severity != "info"]
    if named:
        costliest = max(named, key=lambda finding: finding.cost_s)
        return FamilyState("finding", costliest.headline, costliest.kind)
    missing = {rule.topic: why for rule in family.rules if (why := rule.missing(context))}
    if len(missing) == len(family.rules):
        return FamilyState("not_measured", f"Not measured: {_all_missing(missing.values())}.", None)
    essential = [missing[rule.topic] for rule in family.essential if rule.topic in missing]
    if essential:
        rest = f"Not measured: {_all_missing(essential)}{_observed(findings)}."
        return FamilyState("not_measured", rest, None)
    if context.short and any(rule.needs_steps for rule in family.rules):
        return FamilyState("insufficient", short_reason(context.window), None)
    doubt = family.doubt(context)
    if doubt:
        return FamilyState("insufficient", doubt, None)
    unsure = [finding.kind for finding in findings if is_unsure(finding)]
    if unsure:
        return FamilyState("insufficient", f"The evidence for {listed(unsure)} is too weak.", None)
    seen = [rule.topic for rule in family.rules if applicable(rule, context)]
    reason = f"No cause found in {listed(seen)}"
    small = [finding.kind for finding in _notes(findings) if finding.cost_s > 0.0]
    if small:
        over = (
            "is over its share but costs" if len(small) == 1 else "are over their shares but cost"
        )
        reason += f"; {listed(small)} {over} too little to matter"
    reason += _observed(findings)
    if missing:
        reason += f"; not measured: {listed(_by_reason(missing.values()))}"
    return FamilyState("clean", reason + ".", None)


def _notes(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.kind != "COMPUTE_BOUND"]


def _observed(findings: Iterable[Finding]) -> str:
    """Name the observations that cost nothing, to follow a sentence; "" without any."""
    kinds = [finding.kind for finding in _notes(findings) if not finding.cost_s > 0.0]
    return f"; observed: {listed(kinds)}" if kinds else ""


def _all_missing(whys: Iterable[str]) -> str:
    """Say why nothing of a family was measured: one reason alone needs no list of signals."""
    reasons = {why.partition(" (")[2].removesuffix(")") for why in whys}
    return reasons.pop() if len(reasons) == 1 else listed(_by_reason(whys))


def _by_reason(whys: Iterable[str]) -> list[str]:
    """Put signals that are missing for one reason together: "a and b (no accelerator)"."""
    signals: dict[str, list[str]] = {}
    for why in dict.fromkeys(whys):
        signal, _, reason = why.partition(" (")
        signals.setdefault(reason, []).append(signal)
    return [
        f"{listed(names)} ({reason}" if reason else listed(names)
        for reason, names in signals.items()
    ]
