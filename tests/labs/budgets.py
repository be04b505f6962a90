"""Runs of known floating-point work and known times, for the efficiency budget."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.labs.runs import make_rank, make_run
from traintrace.facts import RankFacts, Setup
from traintrace.flopfacts import CountedStep, FlopFacts
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.efficiency import EfficiencyBudget


def counted_step(step: int, total: int, samples: int = 32, **more: Any) -> CountedStep:
    """Give a counted step of float32 work, two thirds of it in backward."""
    values: dict[str, Any] = {
        "micro_batches": 1, "tokens": None, "padded_tokens": None, "recomputed_flops": 0,
        "flops": {"fp32": total}, "backward_flops": 2 * total // 3, **more,
    }  # fmt: skip
    return CountedStep(step=step, samples=samples, **values)


def with_flops(
    rank: RankFacts, *counted: CountedStep, peak_tflops: float | None = 1.0, **flops: Any
) -> RankFacts:
    """Give `rank` with what is known of its work."""
    return replace(rank, flops=FlopFacts(counted=counted, peak_tflops=peak_tflops, **flops))


def on_gpu(
    rank: RankFacts, name: str | None = "NVIDIA H100 80GB HBM3", precision: str = "bf16-mixed"
) -> RankFacts:
    """Give `rank` on a device of this name."""
    setup = Setup(device_kind="cuda", device_name=name, precision=precision)
    return replace(rank, setup=setup, device_clock="cuda")


def with_totals(rank: RankFacts, **changes: Any) -> RankFacts:
    """Give `rank` with other sums."""
    return replace(rank, totals=replace(rank.totals, **changes))


def budget_of(*ranks: RankFacts, **options: Any) -> EfficiencyBudget:
    """Give the budget of a run of these ranks, which adds up."""
    budget = analysis_of(*ranks, **options).efficiency
    assert budget is not None
    assert sum(budget.lines_ns.values()) == budget.total_ns
    return budget


def analysis_of(*ranks: RankFacts, **options: Any) -> Analysis:
    """Analyse a run of these ranks."""
    return analyse(make_run(*ranks), **options)


def rank_with(accounts_ns: Mapping[str, int], steps: int = 100) -> RankFacts:
    """Give a rank whose whole time is `accounts_ns`, with ordinary steps beside it."""
    rank = make_rank(steps)
    wall_ns = sum(accounts_ns.values())
    return with_totals(rank, account_ns=dict(accounts_ns), wall_ns=wall_ns)


def kinds(analysis: Analysis) -> Sequence[str]:
    """Give the kinds of findings that are a warning or worse."""
    return [one.kind for one in analysis.findings if one.severity != "info"]
