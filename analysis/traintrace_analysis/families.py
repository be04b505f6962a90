"""The state of each family of causes: what was examined, and what was not and why."""

from collections.abc import Mapping, Sequence
from typing import Final

from traintrace.accounts import REQUIRED_PHASES
from traintrace_analysis.findings import FAMILIES, FamilyState, Finding
from traintrace_analysis.model import Metric
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.unexamined import RECURRING, Unexamined
from traintrace_analysis.wording import count, listed, percent

_LATER = "is not part of this version"
UNEXAMINED: Final[Mapping[str, str]] = {
    "communication": f"Communication analysis {_LATER}.",
    "memory": f"Memory analysis {_LATER}.",
    "system": f"Sampling of the machine {_LATER}.",
    "process": f"Sampling of the process {_LATER}.",
    "convergence": f"Analysis of losses {_LATER}.",
    "efficiency": f"Analysis of FLOPs {_LATER}.",
    "stages": f"Analysis of pipelines {_LATER}.",
}


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


def family_states(
    window: StepWindow,
    metrics: Mapping[str, Metric],
    findings: Sequence[Finding],
    unexamined: Unexamined | None,
) -> dict[str, FamilyState]:
    """Say for every family what was found, or why nothing can be said."""
    states = {name: FamilyState("not_measured", why, None) for name, why in UNEXAMINED.items()}
    single = len(window.expected_ranks) <= 1
    ranks_reason = "One rank." if single else f"Rank comparison {_LATER}."
    states["ranks"] = FamilyState("not_measured", ranks_reason, None)
    states["step_time"] = _step_time(window, metrics, findings)
    states["between_steps"] = _between_steps(window, findings, unexamined)
    return {family: states[family] for family in FAMILIES}


def _found(family: str, window: StepWindow, findings: Sequence[Finding]) -> FamilyState | None:
    if is_short(window):
        return FamilyState("insufficient", short_reason(window), None)
    named = [f for f in findings if f.family == family and f.severity != "info"]
    if not named:
        return None
    costliest = max(named, key=lambda finding: finding.cost_s)
    return FamilyState("finding", costliest.headline, costliest.kind)


def _between_steps(
    window: StepWindow, findings: Sequence[Finding], unexamined: Unexamined | None
) -> FamilyState:
    found = _found("between_steps", window, findings)
    if found is not None:
        return found
    unjudged = 0.0 if unexamined is None else unexamined.share(*RECURRING)
    if unexamined is not None and unjudged >= limit("unjudged_between_share"):
        largest = max(RECURRING, key=lambda name: unexamined.ns[name])
        reason = f"{percent(unjudged)} of the run is in accounts that no rule examines, most of it "
        return FamilyState("insufficient", f"{reason}in {largest}.", None)
    reason = "Epoch starts, evaluation and checkpoints are small"
    small = [f.kind for f in findings if f.family == "between_steps"]
    if small:
        reason += f"; {listed(small)} is over its share, but under half a second"
    return FamilyState("clean", reason + ".", None)


def _step_time(
    window: StepWindow, metrics: Mapping[str, Metric], findings: Sequence[Finding]
) -> FamilyState:
    found = _found("step_time", window, findings)
    if found is not None:
        return found
    missing = missing_phases(metrics)
    if missing:
        return FamilyState("insufficient", missing_reason(window, missing), None)
    unsure = [f.kind for f in findings if f.family == "step_time" and is_unsure(f)]
    if unsure:
        return FamilyState("insufficient", f"The evidence for {listed(unsure)} is too weak.", None)
    looked_at = ("input_wait", "h2d", "residual")
    seen = [name for name in looked_at if metrics[name].ranks_measured]
    unseen = [name for name in looked_at if not metrics[name].ranks_measured]
    small = [f.kind for f in findings if f.family == "step_time" and f.kind != "COMPUTE_BOUND"]
    reason = f"No cause found in {listed(seen)}"
    if any(f.kind == "EPOCH_START_COST" and f.severity != "info" for f in findings):
        reason += " beyond the first fetches of epochs"
    if small:
        reason += f"; {listed(small)} is over its share but costs too little to matter"
    if unseen:
        whys = [window.reasons.get(name, "measured on too few steps") for name in unseen]
        pairs = [f"{name} ({why})" for name, why in zip(unseen, whys, strict=True)]
        reason += f"; not measured: {listed(pairs)}"
    return FamilyState("clean", reason + ".", None)
