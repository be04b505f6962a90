"""Whether a run holds enough to be judged, and what is missing if not."""

from collections.abc import Mapping, Sequence

from traintrace.accounts import REQUIRED_PHASES
from traintrace_analysis.findings import Finding
from traintrace_analysis.model import Metric
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, listed


def is_short(window: StepWindow) -> bool:
    """Tell whether there are too few steady steps to judge."""
    return window.steady_steps < limit("steady_steps_minimum")


def short_reason(window: StepWindow) -> str:
    """Say how many steps there are and how many are needed."""
    if not window.ranks:
        return "No rank completed a step."
    needed = int(limit("steady_steps_minimum"))
    warmup = f" after {window.warmup_steps} of warm-up" if window.warmup_steps else ""
    return f"{count(window.steady_steps, 'step')}{warmup}; at least {needed} are needed."


def missing_phases(metrics: Mapping[str, Metric]) -> list[str]:
    """Name the required phases that no rank measured on enough steps."""
    return [name for name in REQUIRED_PHASES if not metrics[name].ranks_measured]


def missing_reason(window: StepWindow, missing: Sequence[str]) -> str:
    """Say which required phases are missing, and why the first of them is."""
    why = window.reasons.get(missing[0], "measured on fewer than 95 % of the steps")
    return f"{listed(missing)} not measured: {why}."


def is_unsure(finding: Finding) -> bool:
    """Tell whether a finding is a candidate that the evidence is too weak to name."""
    return finding.kind != "COMPUTE_BOUND" and finding.confidence < limit("confidence_to_name")
