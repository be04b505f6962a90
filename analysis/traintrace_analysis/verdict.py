"""The one answer: the finding that matters most, or why none is named."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding, Outcome, Verdict
from traintrace_analysis.model import Metric
from traintrace_analysis.rules.process.delay import lacks_cores
from traintrace_analysis.rules.ranks.waiting import doubt as doubt_of_ranks
from traintrace_analysis.rules.ranks.waiting import shared_waiting
from traintrace_analysis.rules.shares import backward_may_wait, quiet_confidence
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.sufficiency import (
    is_short,
    is_unsure,
    missing_phases,
    missing_reason,
    short_reason,
)
from traintrace_analysis.thresholds import limit
from traintrace_analysis.unexamined import RECURRING, Unexamined
from traintrace_analysis.wording import listed, percent, seconds


def judge(
    window: StepWindow,
    metrics: Mapping[str, Metric],
    context: Context | None,
    findings: Sequence[Finding],
    unexamined: Unexamined | None,
) -> Verdict:
    """Name the finding that matters most, a warning at least; else say why none is named.

    What is critical comes first, then what likely costs most seconds.

    In this order: no record, too few steps to judge, a finding, a required phase that is missing,
    a run that lies mostly outside what was judged, evidence that cannot separate causes, and only
    then a clean bill of health. Whatever the answer, a reason says how much of the run it leaves
    out once that is a fifth.
    """
    if not window.ranks and unexamined is None:
        return _answer(
            "INCOMPLETE_DATA",
            "insufficient_data",
            "No rank left a record.",
            "There is nothing to judge: the files of the ranks are missing.",
            "Look into the ranks folder of the run; if it is empty, training ended before a rank "
            "could write.",
        )
    named = [finding for finding in findings if _is_about_time(finding)]
    if context is None or (is_short(window) and not named):
        verdict = _answer(
            "TOO_FEW_STEPS",
            "insufficient_data",
            "Too few steps to judge." if window.steady_steps else "No steady step was completed.",
            short_reason(window),
            "Let the run make more steps.",
        )
    else:
        verdict = _judged(metrics, context, findings, unexamined)
    if unexamined is None or unexamined.share() < limit("unexamined_share"):
        return verdict
    told = unexamined.told()
    return verdict if told in verdict.why else replace(verdict, why=f"{verdict.why} {told}")


def _judged(
    metrics: Mapping[str, Metric],
    context: Context,
    findings: Sequence[Finding],
    unexamined: Unexamined | None,
) -> Verdict:
    named = [finding for finding in findings if _is_about_time(finding)]
    if named:
        return _from_finding(max(named, key=_importance))
    missing = missing_phases(metrics)
    if missing:
        return _answer(
            "INCOMPLETE_DATA",
            "insufficient_data",
            f"The step cannot be judged: {listed(missing)} {'was' if len(missing) == 1 else 'were'} not measured.",
            missing_reason(context.window, missing),
            f"Mark {listed(missing)} in the loop, or trace a run in which it can be seen.",
        )
    calm = _calm(metrics, context, findings)
    if unexamined is not None and _hides_too_much(unexamined):
        after = calm.headline.removesuffix(".")
        return _cannot_tell(
            unexamined.headline(),
            f"{unexamined.told()} In the rest: {after[:1].lower()}{after[1:]}.",
            unexamined.action(),
        )
    return _doubtful(metrics, context, findings) or calm


def _is_about_time(finding: Finding) -> bool:
    """Tell whether a verdict may name a finding: how training went only where all later time was lost."""
    if finding.family == "convergence":
        return finding.severity == "critical"
    return finding.severity != "info"


def _importance(finding: Finding) -> tuple[bool, float, float]:
    """Order findings: what is critical first, then the seconds that are likely lost.

    A resource that is about to run out costs no seconds yet; it leads only where it is critical and
    nothing critical costs time.
    """
    return (
        finding.severity == "critical",
        finding.cost_s * finding.confidence,
        finding.confidence,
    )


def _hides_too_much(unexamined: Unexamined) -> bool:
    """Tell whether the larger part of a run, or much that comes back in every step, is unjudged."""
    return unexamined.share() >= limit("unexamined_majority") or unexamined.share(
        *RECURRING
    ) >= limit("unexamined_share")


def _calm(metrics: Mapping[str, Metric], context: Context, findings: Sequence[Finding]) -> Verdict:
    """Give the answer for a run in which no cause stands out, and what is too short to be one."""
    compute = next((finding for finding in findings if finding.kind == "COMPUTE_BOUND"), None)
    calm = (
        _balanced(metrics, quiet_confidence(context)) if compute is None else _from_finding(compute)
    )
    short = [
        f"{finding.headline} That is {seconds(finding.cost_s)} in all, too little to matter."
        for finding in findings
        if finding.family == "between_steps"
    ]
    return replace(calm, why=" ".join([calm.why, *short]))


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


def _doubtful(
    metrics: Mapping[str, Metric], context: Context, findings: Sequence[Finding]
) -> Verdict | None:
    """Say why a run without a named cause cannot be called balanced; None if it can."""
    unsure = [
        f"{finding.headline} That is only {percent(finding.confidence)} sure. {finding.why}"
        for finding in findings
        if is_unsure(finding)
    ]
    waiting = shared_waiting(context)
    if waiting and not unsure:
        return _cannot_tell(
            "The ranks wait for each other, and none of them stands out.",
            waiting,
            "Give each rank cores of its own first: fewer ranks or threads on the node, no other programs."
            if lacks_cores(context)
            else "Look at what is sent and over which link: gradients in bfloat16, larger buckets "
            "(bucket_cap_mb), no_sync() while gradients accumulate, NCCL_DEBUG=INFO for the transport.",
        )
    hidden = waiting or _hidden_rank(metrics, context)
    if unsure:
        return _cannot_tell(
            "The measurements do not say which cause it is.",
            " ".join([*unsure, hidden]).rstrip(),
            "Read the wall ledger for where the time went; trace again where a doubt can be removed.",
        )
    if hidden:
        return _cannot_tell(
            "No cause was found, but a slow rank could hide.",
            hidden,
            "Run a few hundred steps on one rank alone: what a step takes there, it takes without waiting for "
            "others. Compare the ranks in final_summary.json (wall, by_rank).",
        )
    return None


def _hidden_rank(metrics: Mapping[str, Metric], context: Context) -> str:
    """Say why a slow rank may hide; "" if ranks were compared, or visibly hardly wait for each other."""
    shares = [metrics[name].share for name in ("gradient_sync", "communication")]
    waiting = sum(share or 0.0 for share in shares)
    if backward_may_wait(context) or waiting >= limit("waiting_share_unexplained"):
        return doubt_of_ranks(context)
    return ""


def _cannot_tell(headline: str, why: str, action: str) -> Verdict:
    return _answer("CANNOT_TELL", "cannot_tell", headline, why, action)


def _balanced(metrics: Mapping[str, Metric], confidence: float) -> Verdict:
    names = ("input_wait", "h2d", "forward", "backward", "gradient_sync", "optimizer", "residual")
    shares = {name: share for name in names if (share := metrics[name].share) is not None}
    parts = [f"{name} {percent(share)}" for name, share in shares.items() if share > 0.0]
    return _answer(
        "BALANCED",
        "balanced",
        "No single cause stands out.",
        f"Of step time: {listed(parts)}." if parts else "Every cause stays under its limit.",
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
