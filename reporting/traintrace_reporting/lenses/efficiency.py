"""The summary's section on efficiency: wall time against the device's peak, line by line."""

from typing import Any, Final

from traintrace_analysis import Analysis
from traintrace_analysis.efficiency import EfficiencyBudget

# A number format that nobody knows.
UNKNOWN: Final = "unknown"


def section(analysis: Analysis) -> dict[str, Any] | None:
    """Give the section of the summary; None if no time was recorded."""
    budget = analysis.efficiency
    if budget is None:
        return None
    return {
        "rank": budget.rank,
        "total_ns": budget.total_ns,
        "lines_ns": dict(budget.lines_ns),
        "compute_ns": budget.compute_ns,
        "compute_clock": budget.compute_clock,
        "compute_of_peak_share": budget.compute_share_of_peak,
        "mfu": {
            "run": budget.mfu,
            "run_low": budget.mfu_low,
            "run_high": budget.mfu_high,
            "steps": budget.mfu_step,
            "by_rank": {str(rank): mfu for rank, mfu in budget.by_rank.items()},
        },
        "work": _work(budget),
        "peak": _peak(budget),
        "problem": budget.problem or None,
        "reason": budget.reason or None,
        "asked": budget.asked,
        "named_by": {line: list(kinds) for line, kinds in budget.named_by.items()},
    }


def _work(budget: EfficiencyBudget) -> dict[str, Any] | None:
    work = budget.work
    if work is None:
        return None
    # As decimal numbers: whole ones would be beyond what most readers of JSON hold.
    return {
        "convention": work.convention,
        "flops": float(work.total),
        "flops_low": float(work.low),
        "flops_high": float(work.high),
        "flops_per_step": budget.flops_per_step,
        "by_format": {name or UNKNOWN: float(flops) for name, flops in work.by_format.items()},
        "basis": work.basis,
        "steps": work.steps,
        "counted_steps": work.counted_steps,
        "recomputed_share": work.recomputed_share,
        "uncounted": list(work.uncounted),
    }


def _peak(budget: EfficiencyBudget) -> dict[str, Any] | None:
    anchor = budget.anchor
    if anchor is None:
        return None
    tflops = {name or UNKNOWN: peak for name, peak in anchor.tflops.items()}
    return {"tflops": tflops, "source": anchor.source}
