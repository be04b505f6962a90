"""The one door: from what was recorded to what it means."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traintrace.facts import RankFacts, RunFacts
from traintrace_analysis.communication import summarise_communication
from traintrace_analysis.context import NS_PER_MS, Context
from traintrace_analysis.convergence import examine_convergence
from traintrace_analysis.coverage import collect_warnings, measure_coverage
from traintrace_analysis.efficiency import measure_efficiency, name_findings, problems, with_peak
from traintrace_analysis.epochs import split_wait
from traintrace_analysis.families import family_states
from traintrace_analysis.history import count_work, draw_series, list_attempts
from traintrace_analysis.machine_summary import (
    measure_memory,
    summarise_processes,
    summarise_system,
)
from traintrace_analysis.metrics import summarise_metrics, summarise_statistics
from traintrace_analysis.model import Analysis, Metric
from traintrace_analysis.ranks import compare_ranks
from traintrace_analysis.ranks.section import summarise_ranks
from traintrace_analysis.registry import find
from traintrace_analysis.rules.between_steps.incidents import named_pauses
from traintrace_analysis.stages import StageAnalysis, analyse_stages
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.throughput import measure_throughput
from traintrace_analysis.traces import Trace, analyse_traces
from traintrace_analysis.unexamined import measure_unexamined
from traintrace_analysis.verdict import judge
from traintrace_analysis.wall import build_wall
from traintrace_analysis.window import attempt_ranks, build_window


def analyse(
    facts: RunFacts,
    *,
    window_steps: int = 10_000,
    traces: Sequence[Trace] = (),
    peak_tflops: float | None = None,
) -> Analysis:
    """Analyse a run: a pure function of its facts, always the same answer for the same facts.

    The latest attempt that completed a step is analysed. Works for any run: without ranks, without
    steps, with ranks that recorded nothing.

    Args:
        facts: The run, with at least the columns named in `REQUIRED_COLUMNS` where they exist.
        window_steps: At most so many of the latest common steps are looked at one by one;
            totals are of the whole run in any case.
        traces: Traces of a profiler, at most one a rank, if there are any.
        peak_tflops: What the devices can do [1e12 operations/s], whatever the run says; None leaves it.

    Raises:
        ValueError: `window_steps` is less than 1, or two traces are of one rank.
    """
    if window_steps < 1:
        raise ValueError(f"window_steps must be at least 1, not {window_steps!r}")
    facts = with_peak(facts, peak_tflops)
    window = build_window(facts, window_steps)
    metrics = summarise_metrics(window)
    ranks = attempt_ranks(facts, window.attempt)
    chosen = _representative(metrics, ranks, window)
    stages = None if chosen is None else _stages(chosen, ranks)
    traffic = analyse_traces(traces)
    learning = examine_convergence(window, ranks, None if chosen is None else chosen.rank)
    step_ms = metrics["step_time"].mean_ms
    budget = None if chosen is None else measure_efficiency(facts, window, ranks, chosen, step_ms)
    context = None
    if chosen is not None:
        context = Context(
            window, metrics, chosen, split_wait(window), stages=stages, traffic=traffic
        )
        pauses = named_pauses(context)
        context = replace(
            context, pauses=pauses, comparison=compare_ranks(window, pauses), convergence=learning
        )
        context = replace(context, efficiency=budget)
    findings = () if context is None else find(context)
    unexamined = None if chosen is None else measure_unexamined(window, chosen, context, findings)
    memory = measure_memory(window)
    system = summarise_system(window, ranks)
    process = summarise_processes(window, ranks)
    section = summarise_ranks(None if context is None else context.comparison)
    counts = count_work(ranks)
    rank = None if chosen is None else chosen.rank
    measured = metrics["step_time"].representative_rank
    communication = summarise_communication(context, traffic)
    lenses = {
        "communication": communication,
        "convergence": learning,
        "efficiency": None if budget is None or budget.mfu is None else budget,
        "stages": stages,
    }
    return Analysis(
        window=window,
        representative_rank=rank,
        warmup_ms=_warmup_ms(window, rank),
        metrics=metrics,
        statistics=summarise_statistics(window, metrics, measured),
        wall=build_wall(ranks, rank),
        throughput=measure_throughput(window),
        counts=counts,
        attempts=list_attempts(facts),
        series=draw_series(window, rank),
        memory=memory,
        system=system,
        process=process,
        ranks=section,
        findings=findings,
        families=family_states(window, context, findings),
        verdict=judge(window, metrics, context, findings, unexamined),
        coverage=measure_coverage(
            window, metrics, memory, counts, section, system, process, lenses
        ),
        warnings=(*collect_warnings(facts, window), *problems(budget)),
        stages=stages,
        communication=communication,
        convergence=learning,
        efficiency=name_findings(budget, findings),
    )


def _representative(
    metrics: dict[str, Metric], ranks: tuple[RankFacts, ...], window: StepWindow
) -> RankFacts | None:
    """Give the rank nearest the median step time; the lowest rank that is there if none has steps."""
    wanted = metrics["step_time"].representative_rank
    pool = window.facts or ranks
    return next((rank for rank in pool if rank.rank == wanted), pool[0] if pool else None)


def _stages(chosen: RankFacts, ranks: tuple[RankFacts, ...]) -> StageAnalysis | None:
    """Analyse the pipeline of one rank: the chosen one's, or the first that another one has."""
    for rank in (chosen, *ranks):
        found = analyse_stages(rank.pipeline, rank.process, rank.system, rank.rank)
        if found is not None:
            return found
    return None


def _warmup_ms(window: StepWindow, rank: int | None) -> float | None:
    if rank is None or rank not in window.ranks or not len(window.steps):
        return None
    times = window.host["step_time"][window.ranks.index(rank), : window.warmup_steps]
    return float(np.sum(times)) / NS_PER_MS
