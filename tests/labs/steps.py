"""Steps of 20 ms made by hand, and what an analysis finds in them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.labs.runs import CPU_STEP, Value, make_rank, make_run
from traintrace.facts import RankFacts
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding


def found(analysis: Analysis, kind: str) -> Finding | None:
    """Give the finding of one kind."""
    return next((finding for finding in analysis.findings if finding.kind == kind), None)


def named(analysis: Analysis) -> set[str]:
    """Give the kinds that are a warning or worse."""
    return {finding.kind for finding in analysis.findings if finding.severity != "info"}


def step(**ms: Value) -> Mapping[str, Value]:
    """Give the accounts of an ordinary step of 20 ms, some of them changed."""
    return {**CPU_STEP, "forward": 8.0, "backward": 10.2, **ms}


def every(distance: int, slow: float, usual: float, count: int) -> list[float]:
    """Make each step number `distance` slow."""
    return [slow if (k + 1) % distance == 0 else usual for k in range(count)]


def run(count: int, **ms: Value) -> Analysis:
    """Analyse a run of one rank with `step(**ms)`."""
    return analyse(make_run(make_rank(count, ms=step(**ms))))


def with_columns(rank: RankFacts, **columns: Sequence[int]) -> RankFacts:
    """Replace columns of the steps table."""
    return replace(rank, columns={**rank.columns, **columns})


def noisy(
    count: int, phi: float, cv: float, rng: np.random.Generator, spikes: float
) -> list[float]:
    """Draw 40 ms with AR(1) noise on a logarithmic scale, some steps four times as long."""
    fresh = rng.normal(size=count + 100)
    wave = np.zeros(count + 100)
    for k in range(1, len(wave)):
        wave[k] = phi * wave[k - 1] + fresh[k]
    factors = np.exp(cv * np.sqrt(1.0 - phi**2) * wave[100:])
    factors[rng.random(count) < spikes] *= 4.0
    return (40.0 * factors).tolist()
