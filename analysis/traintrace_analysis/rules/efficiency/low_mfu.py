"""Training that reaches little of its device's peak, and the line of the budget that costs most of it."""

from typing import Final

from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.efficiency import EfficiencyBudget
from traintrace_analysis.efficiency import lines as names
from traintrace_analysis.efficiency.peak import told_of_peak
from traintrace_analysis.findings import Finding, Gain
from traintrace_analysis.replay import without
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import any_number, operations, percent, seconds

_SURE: Final = 0.9  # that a number is what the record says; what can be won is another matter
_ADVICE: Final = {
    names.OVERHEAD: (
        "Trace a few steps (profile_steps) and look at what runs besides matrix products: a larger batch, "
        "bf16, fused attention and optimizer, and torch.compile each bring compute nearer to its peak."
    ),
}
_LOOK: Final = "Look at {line} first: it is the largest line that a change can shorten."


def low_mfu(context: Context) -> list[Finding]:
    """Find training that reaches little of its device's peak."""
    budget = context.efficiency
    if budget is None or budget.mfu is None or budget.work is None or budget.anchor is None:
        return []
    reached = budget.mfu if budget.mfu_step is None else budget.mfu_step
    if reached >= limit("mfu_low"):
        return []
    line, line_ns = largest_fixable(budget)
    cost_s = _cost_s(context, budget) if line == names.OVERHEAD else 0.0
    gain: Gain | None = without(context.rank.totals, cost_s, upper_bound=True) if cost_s else None
    share = line_ns / budget.total_ns
    return [
        Finding(
            id="low-mfu",
            kind="LOW_MFU",
            family="efficiency",
            severity="warning" if cost_s else "info",
            confidence=limit("mfu_winnable") if cost_s else _SURE,
            ranks=(budget.rank,),
            evidence={
                "mfu_share": budget.mfu,
                "mfu_step_share": budget.mfu_step,
                "compute_of_peak_share": budget.compute_share_of_peak,
                "flops_per_step": budget.flops_per_step,
                "convention": budget.work.convention,
                "useful_s": budget.lines_ns.get(names.USEFUL, 0) / NS_PER_S,
                "largest_line": line,
                "largest_line_s": line_ns / NS_PER_S,
                "largest_line_share": share,
            },
            cost_s=cost_s,
            cost_basis="run",
            gain=gain,
            headline=(
                f"Steps reach {percent(reached)} of the device's peak; {names.told(line)} takes "
                f"{seconds(line_ns / NS_PER_S)}."
            ),
            why=_why(budget, share, line, cost_s) + _caution(context, budget),
            action=_ADVICE.get(line, _LOOK.format(line=line)),
        )
    ]


def largest_fixable(budget: EfficiencyBudget) -> tuple[str, int]:
    """Give the largest line that a change of the loop can shorten, and its nanoseconds."""
    fixed = {names.USEFUL, names.COUNTING, names.ELSEWHERE, *names.PAID_ONCE}
    lines = {line: ns for line, ns in budget.lines_ns.items() if line not in fixed}
    line = max(lines, key=lambda one: lines[one], default=names.OVERHEAD)
    return line, lines.get(line, 0)


def _cost_s(context: Context, budget: EfficiencyBudget) -> float:
    """Give what compute takes beyond a run that reaches `mfu_low` in it; 0.0 where that is not to be said."""
    share = budget.compute_share_of_peak
    is_hidden = context.window.accelerator and budget.compute_clock == "host"
    if share is None or share >= limit("compute_of_peak_low") or is_hidden:
        return 0.0
    beyond_ns = budget.compute_ns * (1.0 - share / limit("mfu_low"))
    per_step_ms = beyond_ns / 1e6 / context.rank.totals.steps
    is_small = (
        per_step_ms < limit("step_loss_floor") and beyond_ns < limit("run_loss_floor") * NS_PER_S
    )
    return 0.0 if is_small else beyond_ns / NS_PER_S


def _why(budget: EfficiencyBudget, share: float, line: str, cost_s: float) -> str:
    work, anchor = budget.work, budget.anchor
    assert work is not None
    assert anchor is not None
    each = work.total / work.steps
    peaks = sorted(set(anchor.tflops.values()))
    peak = " and ".join(any_number(one) for one in peaks)
    whose = told_of_peak(anchor.source)
    text = (
        f"A step takes {operations(each)} ({_told(work.convention)}); at {peak} TFLOP/s ({whose}) all "
        f"{work.steps:,} take {seconds(budget.lines_ns.get(names.USEFUL, 0) / NS_PER_S)} of "
        f"{seconds(budget.total_ns / NS_PER_S)}. {line} is {percent(share)} of the run."
    )
    if cost_s:
        text += (
            f" Compute alone reaches {percent(budget.compute_share_of_peak or 0.0)}; at "
            f"{percent(limit('mfu_low'))} it would take {seconds(cost_s)} less."
        )
    if work.uncounted:
        text += f" Not in it, since nothing knows their size: {', '.join(work.uncounted[:3])}."
    return text


def _told(convention: str) -> str:
    return {"counted": "counted on real steps", "given": "as given"}.get(
        convention, "6ND, without attention's scores"
    )


def _caution(context: Context, budget: EfficiencyBudget) -> str:
    if not context.window.accelerator or budget.compute_clock == "device":
        return ""
    return " Only the host clock was available: the lines say where the host was, not what the device did."


def missing_mfu(context: Context) -> str:
    """Say why there is no MFU, or none that can be right; "" if there is."""
    budget = context.efficiency
    if budget is None:
        return "mfu (no time was recorded)"
    if budget.problem:
        return f"mfu ({budget.problem.rstrip('.')})"
    return "" if budget.mfu is not None else f"mfu ({budget.reason})"


RULE: Final = Rule(
    topic="what compute reaches of the device's peak",
    kinds=(
        Kind(
            name="LOW_MFU",
            means="Training reaches little of what its device could compute in that time.",
            fires=(
                "The operations of the steps and the device's peak are known, and steady steps reach less than "
                "three tenths of it. It costs seconds only where compute itself reaches less than half of "
                "that and nothing else names them; else it points at the largest line of the budget."
            ),
            never=(
                "That the whole distance to the peak can be won: small layers and operations bound by memory "
                "never come near it. An MFU above 100 % is shown as an error and never as a finding."
            ),
            action="Shorten the largest line; in compute, larger batches, bf16, fused kernels, torch.compile.",
            limits=(
                "mfu_low",
                "compute_of_peak_low",
                "mfu_winnable",
                "step_loss_floor",
                "run_loss_floor",
            ),
        ),
    ),
    examine=low_mfu,
    missing=missing_mfu,
)
