"""Runs of different length: steady ones compare as they are, others over their common beginning."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from traintrace_analysis.comparison.model import ComparedRun, MetricSide
from traintrace_analysis.statistics import MAD_TO_SD
from traintrace_analysis.thresholds import limit

_BLOCKS_TO_JUDGE = 6
_BLOCKS_TO_ALIGN = 3
_SHORTEST_BLOCK = 20  # as `statistics.comparison_block` makes them


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both sides over the same part of training.

    Attributes:
        lengths_differ: Whether what happens once in a while cannot be compared per step.
        obstacle: Why the step times cannot be compared; "" if they can.
        notes: What a reader has to know.
    """

    a: tuple[ComparedRun, ...]
    b: tuple[ComparedRun, ...]
    lengths_differ: bool
    obstacle: str
    notes: tuple[str, ...]


def align(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> Aligned:
    """Cut the longer runs to the length of the shortest where their level moves."""
    lengths = [run.steps for run in (*a, *b)]
    common = min(lengths)
    if not common or max(lengths) <= limit("length_ratio") * common:
        return Aligned(tuple(a), tuple(b), False, "", ())
    notes = [f"The runs have {common:,} to {max(lengths):,} steps after the warm-up."]
    obstacle = ""
    sides: list[tuple[ComparedRun, ...]] = []
    for runs in (a, b):
        kept = []
        for run in runs:
            if run.steps <= limit("length_ratio") * common or _steady(run):
                kept.append(run)
                continue
            beginning = _beginning(run, common)
            if beginning is None:
                obstacle = (
                    f"the steps of {run.label} change their level over time, and the "
                    f"{common:,} steps in common are too few to compare only those"
                )
                beginning = run
            else:
                notes.append(
                    f"{run.label} changes its level over time: its first {common:,} steps count."
                )
            kept.append(beginning)
        sides.append(tuple(kept))
    return Aligned(sides[0], sides[1], True, obstacle, tuple(notes))


def _steady(run: ComparedRun) -> bool:
    """Tell whether the step time keeps its level: its last third lies where its first third does.

    A level that moves far has so long a memory that few blocks are left of many steps.
    """
    means = run.metrics["step_time"].block_means
    if len(means) < _BLOCKS_TO_JUDGE or min(means) <= 0.0:
        return run.steps < _BLOCKS_TO_JUDGE * _SHORTEST_BLOCK
    third = len(means) // 3
    logs = [math.log(mean) for mean in means]
    first, last = statistics.median(logs[:third]), statistics.median(logs[-third:])
    steps = [after - before for before, after in pairwise(logs)]
    spread = MAD_TO_SD * statistics.median(abs(step) for step in steps) / math.sqrt(2.0)
    error = 1.25 * spread * math.sqrt(2.0 / third)
    return abs(last - first) <= max(math.log1p(limit("equivalence_margin")), 3.0 * error)


def _beginning(run: ComparedRun, steps: int) -> ComparedRun | None:
    """Give the run as its first `steps` describe it; None if they hold too few blocks."""
    length = run.metrics["step_time"].block_steps or 1
    if steps // length < _BLOCKS_TO_ALIGN:
        return None
    metrics = {name: _first(side, steps) for name, side in run.metrics.items()}
    return replace(run, steps=steps, metrics=metrics)


def _first(side: MetricSide, steps: int) -> MetricSide:
    kept = side.block_means[: max(1, steps // (side.block_steps or 1))]
    if not side.available or not kept or len(kept) == len(side.block_means):
        return side
    log_mean = side.log_mean
    if log_mean is not None and min(side.block_means) > 0.0:
        # Medians, so that a block with a long step in it does not move the level of the usual one.
        log_mean += math.log(statistics.median(kept) / statistics.median(side.block_means))
    effective = side.n_effective
    if effective is not None:
        effective *= len(kept) / len(side.block_means)
    mean = statistics.fmean(kept)
    return replace(side, mean_ms=mean, log_mean=log_mean, n_effective=effective, block_means=kept)
