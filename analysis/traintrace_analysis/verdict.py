"""The one answer: the finding that costs most, or why none is named."""

from collections.abc import Mapping, Sequence

from traintrace.facts import Totals
from traintrace_analysis.context import Context
from traintrace_analysis.families import (
    is_short,
    is_unsure,
    missing_phases,
    missing_reason,
    short_reason,
)
from traintrace_analysis.findings import Finding, Outcome, Verdict
from traintrace_analysis.model import Metric
from traintrace_analysis.rules.shares import quiet_confidence
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, percent

# Accounts between steps that no rule judges yet: much time there forbids a verdict of balance.
_UNJUDGED = ("gap", "logging", "aborted", "prediction", "tuning", "resume_skip")


def judge(
    window: StepWindow,
    metrics: Mapping[str, Metric],
    context: Context | None,
    findings: Sequence[Finding],
) -> Verdict:
    """Name the costliest finding that is a warning or worse; else say why none is named.

    In this order: too few steps to judge, a finding, a required phase that is missing, evidence
    that cannot separate causes, and only then a clean bill of health.
    """
    if context is None or is_short(window):
        return _answer(
            "TOO_FEW_STEPS",
            "insufficient_data",
            "Too few steps to judge." if window.steady_steps else "No steady step was completed.",
            short_reason(window),
            "Let the run make more steps.",
        )
    named = [finding for finding in findings if finding.severity != "info"]
    if named:
        return _from_finding(max(named, key=lambda finding: finding.cost_s))
    missing = missing_phases(metrics)
    if missing:
        return _answer(
            "INCOMPLETE_DATA",
            "insufficient_data",
            "A part of the step was not measured, so the rest cannot be judged.",
            missing_reason(window, missing),
            "Mark the missing phase, or trace a run in which it can be seen.",
        )
    doubts = _doubts(metrics, context.rank.totals, findings)
    if doubts:
        return _answer(
            "CANNOT_TELL",
            "cannot_tell",
            "The measurements do not say which cause it is.",
            " ".join(doubts),
            "Read the wall ledger for where the time went; trace again where a doubt can be removed.",
        )
    for finding in findings:
        if finding.kind == "COMPUTE_BOUND":
            return _from_finding(finding)
    return _balanced(metrics, quiet_confidence(context))


def _from_finding(finding: Finding) -> Verdict:
    costs = finding.severity != "info"
    return Verdict(
        kind=finding.kind,
        outcome="finding" if costs else "balanced",
        severity=finding.severity,
        confidence=finding.confidence,
        headline=finding.headline,
        why=finding.why,
        action=finding.action,
        cost_s=finding.cost_s if costs else None,
        cost_basis=finding.cost_basis if costs else None,
        gain=finding.gain,
    )


def _doubts(
    metrics: Mapping[str, Metric], totals: Totals, findings: Sequence[Finding]
) -> list[str]:
    """Give a sentence for each reason why the run cannot be called balanced."""
    doubts = [
        f"{finding.headline} Its confidence is only {percent(finding.confidence)}. {finding.why}"
        for finding in findings
        if is_unsure(finding)
    ]
    waiting = sum(metrics[name].share or 0.0 for name in ("gradient_sync", "communication"))
    if waiting >= limit("waiting_share_unexplained"):
        doubts.append(
            f"Ranks wait for each other during {percent(waiting)} of a step; comparing ranks is not "
            "part of this version."
        )
    if totals.wall_ns > 0:
        spent = {name: totals.account_ns.get(name, 0) / totals.wall_ns for name in _UNJUDGED}
        if sum(spent.values()) >= limit("unexamined_share"):
            largest = max(spent, key=lambda name: spent[name])
            doubts.append(
                f"{percent(sum(spent.values()))} of the run lies between steps in accounts that "
                f"no rule examines yet; {largest} is the largest with {percent(spent[largest])}."
            )
    return doubts


def _balanced(metrics: Mapping[str, Metric], confidence: float) -> Verdict:
    names = ("input_wait", "h2d", "forward", "backward", "gradient_sync", "optimizer", "residual")
    shares = {name: share for name in names if (share := metrics[name].share) is not None}
    parts = [f"{name} {percent(share)}" for name, share in shares.items() if share > 0.0]
    return _answer(
        "BALANCED",
        "balanced",
        "No single cause stands out.",
        f"Of each step: {listed(parts)}." if parts else "Every cause stays under its limit.",
        "Nothing needs to change.",
        confidence,
    )


def _answer(
    kind: str, outcome: Outcome, headline: str, why: str, action: str, confidence: float = 1.0
) -> Verdict:
    """Give an answer without a finding; that the data do not suffice is known for certain."""
    return Verdict(
        kind=kind,
        outcome=outcome,
        severity="info",
        confidence=confidence,
        headline=headline,
        why=why,
        action=action,
        cost_s=None,
        cost_basis=None,
        gain=None,
    )
