"""Throughput, memory, system and process, figure by figure."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from traintrace_analysis.comparison.model import ComparedRun, FigureComparison, Judgement
from traintrace_analysis.thresholds import limit

_SECTIONS: Final = ("throughput", "memory", "system", "process")
_MORE_IS_WORSE: Final = ("rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes")

DEVICE_PEAKS: Final = ("peak_allocated_bytes", "peak_reserved_bytes")
"""The figures that runs of the same code repeat, so that one run a side can tell."""


def compare_figures(
    a: Sequence[ComparedRun], b: Sequence[ComparedRun]
) -> tuple[FigureComparison, ...]:
    """Compare every figure that a side has.

    Rates repeat what the step time says and are not judged twice; neither are readings of a machine
    that others use as well.
    """
    compared = []
    for section in _SECTIONS:
        names: dict[str, None] = {}
        for run in (*a, *b):
            names.update(dict.fromkeys(_figures(run, section)))
        for name in names:
            before, after = (_mean(side, section, name) for side in (a, b))
            if before is not None or after is not None:
                compared.append(_compare(section, name, before, after))
    return tuple(compared)


def _compare(
    section: str, name: str, before: float | None, after: float | None
) -> FigureComparison:
    if before is None or after is None:
        return FigureComparison(section, name, before, after, None, None, "unknown")
    ratio = after / before if before else None
    judged: Judgement = "open"
    if section == "memory" and name in _MORE_IS_WORSE and ratio:
        large = math.log1p(limit("figure_change"))
        judged = "regressed" if math.log(ratio) > large else judged
        judged = "improved" if math.log(ratio) < -large else judged
    return FigureComparison(section, name, before, after, after - before, ratio, judged)


def _mean(runs: Sequence[ComparedRun], section: str, name: str) -> float | None:
    values = [_figures(run, section).get(name) for run in runs]
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if len(known) == len(runs) else None


def _figures(run: ComparedRun, section: str) -> Mapping[str, float | None]:
    figures: Mapping[str, float | None] = getattr(run, section)
    return figures
