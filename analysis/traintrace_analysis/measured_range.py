"""The steps that a guard measures: a range that was declared, all of it, warm-up or not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from traintrace.facts import RankFacts, RunFacts
from traintrace_analysis.columns import step_ids
from traintrace_analysis.metrics import summarise_metrics, summarise_statistics
from traintrace_analysis.model import Metric, MetricStatistics
from traintrace_analysis.step_window import StepWindow
from traintrace_analysis.window import build_window


@dataclass(frozen=True, slots=True)
class MeasuredRange:
    """What the steps of a declared range took.

    Attributes:
        window: The steps of the range that all ranks completed and kept; its warm-up is empty.
        wanted: How many steps the range has.
        missing: Why steps are missing; None if all are there.
        metrics, statistics: As in an `Analysis`, of these steps alone.
    """

    window: StepWindow
    wanted: int
    missing: str | None
    metrics: Mapping[str, Metric]
    statistics: Mapping[str, MetricStatistics]


def measure_range(facts: RunFacts, first: int, last: int) -> MeasuredRange:
    """Measure steps `first` to `last` of the latest attempt that completed any of them.

    Args:
        facts: The run, with the columns in `REQUIRED_COLUMNS`.
        first: First step, counted from 1.
        last: Last step.

    Raises:
        ValueError: The range is empty.
    """
    if not 1 <= first <= last:
        raise ValueError(f"steps {first} to {last} are no range of steps counted from 1")
    wanted = last - first + 1
    cut = replace(facts, ranks=[_between(rank, first, last) for rank in facts.ranks])
    # Declared by who knows the workload: nothing of it is taken for warm-up.
    window = replace(build_window(cut, wanted), warmup_steps=0)
    metrics = summarise_metrics(window)
    rank = metrics["step_time"].representative_rank
    return MeasuredRange(
        window=window,
        wanted=wanted,
        missing=_why_missing(window, wanted, last),
        metrics=metrics,
        statistics=summarise_statistics(window, metrics, rank),
    )


def _between(rank: RankFacts, first: int, last: int) -> RankFacts:
    ids = step_ids(rank)
    low, high = (int(place) for place in np.searchsorted(ids, [first, last + 1]))
    columns = {name: values[low:high] for name, values in rank.columns.items()}
    return replace(
        rank,
        columns=columns,
        spans=[span for span in rank.spans if first <= span.step <= last],
    )


def _why_missing(window: StepWindow, wanted: int, last: int) -> str | None:
    if not window.ranks:
        return f"no rank has a row of these {wanted} steps"
    there = len(window.steps)
    reached = min((rank.totals.last_step for rank in window.facts), default=0)
    if len(window.ranks) < len(window.expected_ranks):
        silent = len(window.expected_ranks) - len(window.ranks)
        return f"{silent} of {len(window.expected_ranks)} ranks have no row of these steps"
    if there == wanted:
        return None
    if reached < last:
        return f"{there} of {wanted} steps are there: training ended after step {reached}"
    return f"{there} of {wanted} steps are there: the others were dropped or not kept"
