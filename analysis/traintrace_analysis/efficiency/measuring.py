"""Lay out the budget of a run: its lines, its MFU, and why a number is missing or impossible."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import Final

from traintrace.accounts import GROUPS
from traintrace.facts import ABANDONED, FLOPS_COUNTED, RankFacts, RunFacts
from traintrace.flopfacts import FlopFacts
from traintrace.options import check_peak
from traintrace_analysis.efficiency import lines as names
from traintrace_analysis.efficiency.model import Anchor, EfficiencyBudget, Work
from traintrace_analysis.efficiency.peak import find_anchor, training_format
from traintrace_analysis.efficiency.work import measure_work
from traintrace_analysis.findings import Finding
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.wording import any_number, capped_percent, seconds

_GIGA: Final = 10**9
_TERA: Final = 10**12
_COMPUTE: Final = GROUPS["compute"]
# In 1e12 operations a second: a hundred times what any device in the table does in any format.
_MOST_OF_A_DEVICE: Final = 1e6


def measure_efficiency(
    facts: RunFacts,
    window: StepWindow,
    ranks: Sequence[RankFacts],
    rank: RankFacts,
    step_ms: float | None,
) -> EfficiencyBudget | None:
    """Lay out the budget of one rank; None if it spent no time.

    Args:
        facts: The run.
        window: Its steps.
        ranks: Those of the attempt; each has an MFU.
        rank: Whose budget it is.
        step_ms: Mean time of its steady steps; None without any.
    """
    total_ns = sum(rank.totals.account_ns.values())
    if not total_ns:
        return None
    work, anchor, reason = _known(rank, facts.plugin)
    useful_ns = None if work is None or anchor is None else _useful_ns(work, anchor)
    device_ns = _device_compute_ns(rank) if window.clock == "device" else None
    counting_ns = _counting_ns(rank)
    lines = _lines(rank, useful_ns, device_ns, counting_ns)
    host_ns = sum(rank.totals.account_ns.get(name, 0) for name in _COMPUTE) - (counting_ns or 0)
    compute_ns = host_ns if device_ns is None else device_ns
    is_seen = all(name in rank.totals.account_ns for name in ("forward", "backward"))
    is_true_time = is_seen and (device_ns is not None or not window.accelerator)
    flops = rank.flops or FlopFacts()
    per_total = None if useful_ns is None or not (work and work.total) else useful_ns / work.total
    return EfficiencyBudget(
        rank=rank.rank,
        total_ns=total_ns,
        lines_ns=lines,
        compute_ns=compute_ns,
        compute_clock="host" if device_ns is None else "device",
        work=work,
        anchor=anchor,
        mfu=None if useful_ns is None else useful_ns / total_ns,
        mfu_low=None if per_total is None or work is None else work.low * per_total / total_ns,
        mfu_high=None if per_total is None or work is None else work.high * per_total / total_ns,
        mfu_step=_mfu_of_steps(rank, step_ms, useful_ns),
        compute_share_of_peak=None
        if useful_ns is None or compute_ns <= 0
        else useful_ns / compute_ns,
        by_rank={one.rank: _mfu(one, facts.plugin) for one in ranks},
        problem=_problem(anchor, useful_ns, total_ns, compute_ns if is_true_time else None),
        reason=reason,
        asked=bool(flops.counted or flops.not_counted or flops.flops_per_step or flops.peak_tflops),
        named_by={},
    )


def name_findings(
    budget: EfficiencyBudget | None, findings: Sequence[Finding]
) -> EfficiencyBudget | None:
    """Give the budget with the kinds of findings that name seconds of its lines."""
    if budget is None:
        return None
    return replace(budget, named_by=names.name_lines(budget.lines_ns, findings))


def problems(budget: EfficiencyBudget | None) -> tuple[str, ...]:
    """Give what a reader must be warned of: numbers that cannot be right."""
    return (budget.problem,) if budget is not None and budget.problem else ()


def with_peak(facts: RunFacts, peak_tflops: float | None) -> RunFacts:
    """Give the run with this peak [1e12 operations/s] for every device; None leaves what the run says.

    Raises:
        UsageError: It is no peak.
    """
    check_peak(peak_tflops)
    if peak_tflops is None:
        return facts
    ranks = [
        replace(rank, flops=replace(rank.flops or FlopFacts(), peak_tflops=peak_tflops))
        for rank in facts.ranks
    ]
    return replace(facts, ranks=ranks)


def _known(rank: RankFacts, plugin: str) -> tuple[Work | None, Anchor | None, str]:
    """Give the work and the peak as far as they are known, and why one of them is not."""
    work = measure_work(rank, training_format(rank, plugin))
    if isinstance(work, str):
        return None, None, work
    anchor = find_anchor(rank, work.by_format)
    return (work, None, anchor) if isinstance(anchor, str) else (work, anchor, "")


def _useful_ns(work: Work, anchor: Anchor) -> int:
    times = (
        Fraction(flops * _GIGA) / (Fraction(str(anchor.tflops[name])) * _TERA)
        for name, flops in work.by_format.items()
    )
    return round(sum(times, Fraction(0)))


def _mfu(rank: RankFacts, plugin: str) -> float | None:
    work, anchor, _ = _known(rank, plugin)
    total_ns = sum(rank.totals.account_ns.values())
    if work is None or anchor is None or not total_ns:
        return None
    return _useful_ns(work, anchor) / total_ns


def _mfu_of_steps(rank: RankFacts, step_ms: float | None, useful_ns: int | None) -> float | None:
    if useful_ns is None or not step_ms:
        return None
    return useful_ns / rank.totals.steps / (step_ms * 1e6)


def _lines(
    rank: RankFacts, useful_ns: int | None, device_ns: int | None, counting_ns: int | None
) -> dict[str, int]:
    """Put every account into a line, and split compute; what is taken from one line goes to another."""
    sums: dict[str, int] = {}
    for account, ns in rank.totals.account_ns.items():
        line = names.LINE_OF.get(account, account)
        sums[line] = sums.get(line, 0) + ns
    profiling_ns = min(names.profiling_ns(rank), sums.get("callbacks", 0))
    if profiling_ns:
        sums[names.PROFILING] = profiling_ns
        sums["callbacks"] -= profiling_ns
    if names.COMPUTE in sums:
        if counting_ns:
            sums[names.COUNTING] = counting_ns
            sums[names.COMPUTE] -= counting_ns
        if device_ns is not None:
            sums[names.ELSEWHERE] = sums[names.COMPUTE] - device_ns
            sums[names.COMPUTE] = device_ns
        if useful_ns is not None:
            sums[names.USEFUL] = useful_ns
            sums[names.OVERHEAD] = sums.pop(names.COMPUTE) - useful_ns
    ordered = [line for line in names.ORDER if line in sums]
    ordered += [line for line in sums if line not in names.ORDER]
    return {line: sums[line] for line in ordered}


def _device_compute_ns(rank: RankFacts) -> int | None:
    """Give what compute took on the device in all steps; where rows are missing, at their mean."""
    columns = [rank.columns.get(f"{name}_device_ns") for name in _COMPUTE]
    present = [column for column in columns if column is not None and len(column)]
    flags = rank.columns.get("flags", ())
    spent = [
        sum(ns for ns in row if ns is not None)
        for row, flag in zip(zip(*present, strict=True), flags, strict=False)
        if not (flag or 0) & (ABANDONED | FLOPS_COUNTED) and any(ns is not None for ns in row)
    ]
    return round(Fraction(sum(spent) * rank.totals.steps, len(spent))) if spent else None


def _counting_ns(rank: RankFacts) -> int | None:
    """Give what counting steps took beyond the median of the others; None if their rows are not at hand."""
    flags = rank.columns.get("flags", ())
    if not any((flag or 0) & FLOPS_COUNTED for flag in flags):
        return None
    forward, backward = (rank.columns.get(f"{name}_ns", ()) for name in ("forward", "backward"))
    counted: list[int] = []
    others: list[int] = []
    for flag, one, two in zip(flags, forward, backward, strict=False):
        if one is not None and two is not None and not (flag or 0) & ABANDONED:
            (counted if (flag or 0) & FLOPS_COUNTED else others).append(one + two)
    if not counted or not others:
        return None
    return sum(counted) - round(len(counted) * median(others))


def _problem(
    anchor: Anchor | None, useful_ns: int | None, total_ns: int, compute_ns: int | None
) -> str:
    """Say why the numbers cannot be right; "" if they can."""
    if useful_ns is None or anchor is None:
        return ""
    peak = max(anchor.tflops.values(), default=0.0)
    if peak > _MOST_OF_A_DEVICE:
        return (
            f"A peak of {any_number(peak)} TFLOP/s is more than any device has: "
            "give peak_tflops in 1e12 operations a second."
        )
    blame = (
        "The operations are too many or the peak is too low: look at flops_per_step, peak_tflops and the "
        "number format."
    )
    if useful_ns > total_ns:
        return f"An MFU of {capped_percent(useful_ns / total_ns)} is impossible. {blame}"
    if compute_ns is not None and useful_ns > compute_ns:
        return (
            f"The work takes {seconds(useful_ns / 1e9)} at the device's peak and took "
            f"{seconds(compute_ns / 1e9)}, which is impossible. {blame}"
        )
    return ""
