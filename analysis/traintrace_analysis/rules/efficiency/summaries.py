"""The last word on findings that sum up the budget: they name no second that another finding names."""

from collections.abc import Sequence
from dataclasses import replace

from traintrace_analysis.efficiency import lines as names
from traintrace_analysis.findings import Finding
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, seconds


def settle_summaries(findings: Sequence[Finding]) -> list[Finding]:
    """Give the findings with LOW_MFU less what others name, and RECOVERABLE only where nobody names it."""
    settled = []
    for one in findings:
        others = [other for other in findings if other.family != "efficiency"]
        if one.kind == "LOW_MFU":
            settled.append(_less_named(one, others))
        elif one.kind != "RECOVERABLE" or not _is_named(str(one.evidence["line"]), others):
            settled.append(one)
    return settled


def _is_named(line: str, others: Sequence[Finding]) -> bool:
    return bool(names.name_lines([line], others, with_info=True))


def _less_named(one: Finding, others: Sequence[Finding]) -> Finding:
    line = str(one.evidence["largest_line"])
    kinds = names.name_lines([line], others).get(line, ())
    if not kinds:
        return one
    verb = "names" if len(kinds) == 1 else "name"
    why = f"{one.why} {listed(kinds)} {verb} seconds of it."
    taken_s = sum(other.cost_s for other in others if other.kind in kinds)
    left_s = one.cost_s - taken_s
    if not one.cost_s or left_s < limit("between_loss_floor"):
        return replace(one, severity="info", confidence=0.9, cost_s=0.0, gain=None, why=why)
    return replace(
        one,
        cost_s=left_s,
        gain=None,
        why=f"{why} {seconds(taken_s)} are counted there and not here.",
        evidence={**one.evidence, "named_elsewhere_s": taken_s},
    )
