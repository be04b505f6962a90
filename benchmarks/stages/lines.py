"""The pipelines that are measured, drawn by number, and what is changed in them."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.stages.simulated import StagePlan

FASTER_BY = 0.2


@dataclass(frozen=True, slots=True)
class Line:
    """One pipeline.

    Attributes:
        limiting: Name of the stage that needs most time per item.
        lead: How much more than the next one.
    """

    plans: tuple[StagePlan, ...]
    capacities: dict[str, int | None]
    limiting: str
    lead: float

    def faster(self, stage: str) -> "Line":
        """Give the pipeline with one stage that takes a fifth less time."""
        plans = (
            replace(plan, times_ns=[round((1.0 - FASTER_BY) * one) for one in plan.times_ns])
            if plan.name == stage
            else plan
            for plan in self.plans
        )
        return replace(self, plans=tuple(plans))

    def one_more(self, stage: str) -> "Line":
        """Give the pipeline with one more worker in a stage."""
        plans = (replace(plan, workers=plan.workers + (plan.name == stage)) for plan in self.plans)
        return replace(self, plans=tuple(plans))

    def holding(self, queue: str, items: int) -> "Line":
        """Give the pipeline with another capacity of one queue."""
        return replace(self, capacities={**self.capacities, queue: items})


def draw_line(
    number: int,
    *,
    items: int,
    lead: float,
    per_item_ms: float = 10.0,
    variation: float | None = None,
    draws: int = 0,
    like_sleeps: bool = False,
) -> Line:
    """Draw a pipeline of two to five stages, as a line or with a fork and a join.

    Args:
        number: Makes the shape: stages, workers, capacities, who limits.
        items: Items that go through.
        lead: The limiting stage needs so much more per item than the next one.
        per_item_ms: What the next stage needs per item.
        variation: Standard deviation of service times over their mean; None draws one up to 0.5.
        draws: Makes the service times: pipelines of one `number` differ in luck only.
        like_sleeps: At most four threads beside the source, as long service times as can be.
    """
    shape = np.random.default_rng([11, number])
    count = int(shape.integers(2, 4 if like_sleeps else 6))
    limiting = int(shape.integers(count))
    demands = shape.uniform(0.6, 1.0, count)
    second = int(shape.choice([n for n in range(count) if n != limiting]))
    demands[second] = 1.0
    demands[limiting] = 1.0 + lead
    workers = shape.integers(1, 3 if like_sleeps else 5, count)
    spread = shape.uniform(0.05, 0.5) if variation is None else variation
    capacities = shape.choice([1, 2, 4, 8], count)
    forked = count >= 4 and bool(shape.integers(2))
    luck = np.random.default_rng([12, number, draws])
    takes, puts = _fork(count) if forked else _line(count)
    plans = tuple(
        StagePlan(
            f"s{n}",
            _times(luck, demands[n] * workers[n] * per_item_ms, items, spread),
            int(workers[n]),
            takes[n],
            puts[n],
        )
        for n in range(count)
    )
    names = {name for part in puts for name in part}
    held: dict[str, int | None] = {
        name: int(capacities[n % count]) for n, name in enumerate(sorted(names))
    }
    return Line(plans, held, f"s{limiting}", lead)


def _line(count: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    takes: list[tuple[str, ...]] = [(f"q{n - 1}",) if n else () for n in range(count)]
    puts: list[tuple[str, ...]] = [(f"q{n}",) if n < count - 1 else () for n in range(count)]
    return takes, puts


def _fork(count: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The first stage feeds the second and the third, and the fourth needs an item of each."""
    takes, puts = _line(count)
    puts[0], takes[1], takes[2] = ("a", "b"), ("a",), ("b",)
    puts[1], puts[2], takes[3] = ("c",), ("d",), ("c", "d")
    return takes, puts


def _times(luck: np.random.Generator, mean_ms: float, count: int, variation: float) -> list[int]:
    shape = 1.0 / variation**2
    return [max(1, round(one * 1e6)) for one in luck.gamma(shape, mean_ms / shape, count)]
