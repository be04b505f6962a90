"""The registry: every family of rules, and how a run goes through them."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import SEVERITY_ORDER, Finding
from traintrace_analysis.rules import (
    between_steps,
    communication,
    convergence,
    efficiency,
    memory,
    process,
    ranks,
    stages,
    step_time,
    system,
)
from traintrace_analysis.rules.rule import Family, Rule
from traintrace_analysis.settlement import settle

REGISTRY: Final[tuple[Family, ...]] = (
    step_time.FAMILY,
    between_steps.FAMILY,
    ranks.FAMILY,
    communication.FAMILY,
    memory.FAMILY,
    system.FAMILY,
    process.FAMILY,
    convergence.FAMILY,
    efficiency.FAMILY,
    stages.FAMILY,
)
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    family.name: tuple(kind.name for rule in family.rules for kind in rule.kinds)
    for family in REGISTRY
}
"""Kinds of findings by family."""


def applicable(rule: Rule, context: Context) -> bool:
    """Tell whether a run allows a rule: enough steps, and the signals that it needs."""
    return not (rule.needs_steps and context.short) and not rule.missing(context)


def find(context: Context) -> tuple[Finding, ...]:
    """Run every rule that the run allows; most severe first, then by cost, then by kind."""
    found = [
        finding
        for family in REGISTRY
        for rule in family.rules
        if applicable(rule, context)
        for finding in rule.examine(context)
    ]
    settled = settle(context, found)
    return tuple(sorted(settled, key=lambda f: (SEVERITY_ORDER[f.severity], -f.cost_s, f.kind)))
