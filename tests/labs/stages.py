"""Pipelines of stages for tests: drawn service times, run without a clock."""

import numpy as np

from benchmarks.stages.simulated import StagePlan, run
from traintrace.stagefacts import Pipeline

__all__ = ["StagePlan", "drawn_ms", "line", "run"]


def drawn_ms(
    rng: np.random.Generator, mean_ms: float, count: int, variation: float = 0.5
) -> list[int]:
    """Draw times of a mean from a gamma distribution, as nanoseconds; all the same without variation."""
    if not variation:
        return [round(mean_ms * 1e6)] * count
    shape = 1.0 / variation**2
    return [max(1, round(one * 1e6)) for one in rng.gamma(shape, mean_ms / shape, count)]


def line(
    *means_ms: float,
    count: int = 400,
    capacity: int | None = 2,
    workers: tuple[int, ...] = (),
    variation: float = 0.5,
    seed: int = 0,
) -> Pipeline:
    """Let stages `s0`, `s1`, ... work one behind the other; `means_ms` is per item, all workers together."""
    rng = np.random.default_rng(seed)
    workers = workers or (1,) * len(means_ms)
    last = len(means_ms) - 1
    plans = [
        StagePlan(
            f"s{n}",
            drawn_ms(rng, mean * workers[n], count, variation),
            workers[n],
            (f"q{n - 1}",) if n else (),
            (f"q{n}",) if n < last else (),
        )
        for n, mean in enumerate(means_ms)
    ]
    return run(plans, {f"q{n}": capacity for n in range(last)})
