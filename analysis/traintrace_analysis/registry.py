"""The registry of rules: what is examined, in which order."""

from collections.abc import Callable
from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.findings import SEVERITY_ORDER, Finding
from traintrace_analysis.rules import between_steps, input_wait, step_time

Rule = Callable[[Context], list[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    input_wait.input_bound,
    step_time.h2d_bound,
    step_time.residual_heavy,
    step_time.compute_bound,
    between_steps.epoch_start_cost,
    between_steps.evaluation_cost,
    between_steps.checkpoint_cost,
)


def find(context: Context) -> tuple[Finding, ...]:
    """Run every rule; most severe first, then by cost, then by kind."""
    found = [finding for rule in RULES for finding in rule(context)]
    return tuple(sorted(found, key=lambda f: (SEVERITY_ORDER[f.severity], -f.cost_s, f.kind)))
