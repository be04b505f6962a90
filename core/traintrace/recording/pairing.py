"""Compare two kinds of blocks of steps that alternate at random in one run.

A block is a few hundred steps in a row; its figure is the median CPU time of the training thread per
step, so that a step that was interrupted does not count. Blocks come in pairs, in random order, so that
a machine that grows slow slows both alike. The interval is a bootstrap over pairs.
"""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

Block = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Cost:
    """Added time per step [us] with a 95 % interval."""

    estimate: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Give the three figures, rounded to 0.1 us."""
        return {
            "estimate": round(self.estimate, 1),
            "low": round(self.low, 1),
            "high": round(self.high, 1),
        }


def paired_differences(
    treated: Block, plain: Block, pairs: int, chance: random.Random
) -> list[float]:
    """Run `pairs` pairs of blocks in random order; give treated minus plain [us per step] per pair."""
    differences = []
    for _ in range(pairs):
        if chance.random() < 0.5:
            first = treated()
            differences.append(first - plain())
        else:
            first = plain()
            differences.append(treated() - first)
    return differences


def cost_of(differences: list[float], chance: random.Random, resamples: int = 2000) -> Cost:
    """Give the median of the differences with its bootstrap interval."""
    medians = sorted(
        statistics.median(chance.choices(differences, k=len(differences))) for _ in range(resamples)
    )
    return Cost(
        statistics.median(differences),
        medians[int(0.025 * resamples)],
        medians[int(0.975 * resamples)],
    )
