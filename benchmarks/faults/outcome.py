"""What one repetition of a fault showed, and how it is compared with the same training untraced."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from benchmarks.faults.lab import Lab
from benchmarks.faults.workload import Workload, one_step
from traintrace_reporting.finish import Summary

STEPS: Final = 220
PATIENCE_S: Final = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one repetition showed.

    Attributes:
        lost_s: How long before the end the first completed step lies that is not in the report.
        wrong: What training did that it does not do untraced, or the report does not say although it should.
        leftovers: What should not be there.
        how: By which means the fault was made.
        slower: Median step time as a ratio to that of the same training untraced; None if not looked at.
    """

    lost_s: float
    wrong: list[str]
    leftovers: list[str]
    how: str
    slower: float | None = None


Fault = Callable[[Lab, random.Random], Outcome]


def check(lab: Lab, *, code: int, expected: int, steps: int | None, rank: int = 0) -> list[str]:
    """Compare with the same training untraced: exit code, losses, and number of steps if it went on."""
    told = lab.told(rank)
    wrong = [] if code == expected else [f"exit code {code}, untraced {expected}: {lab.logs()}"]
    if told.losses != list(losses_untraced()[: len(told.losses)]):
        wrong.append("other losses")
    if steps is not None and len(told.losses) != steps:
        wrong.append(f"{len(told.losses)} steps instead of {steps}")
    return wrong


@cache
def losses_untraced() -> tuple[str, ...]:
    """Give the losses of the workload without a tracer."""
    state, losses = 0.4, []
    for _ in range(STEPS):
        state = one_step(None, state, 0.0)
        losses.append(state.hex())
    return tuple(losses)


def says(summary: Summary, *words: str) -> list[str]:
    """Name what the report does not say although it should."""
    text = " ".join([summary["run"]["status"], *summary["warnings"]])
    return [f"the report does not say {word!r}: {text}" for word in words if word not in text]


def random_moment(lab: Lab, rng: random.Random, rank: int = 0, last_s: float = 1.6) -> None:
    """Wait for the first step, and then for a moment that lies anywhere in training or at its end."""
    lab.wait_for_step(1, rank)
    time.sleep(rng.uniform(0.0, last_s))


def rank_of_two(lab: Lab, rank: int) -> tuple[Workload, dict[str, str]]:
    """Describe one rank of a job of two whose ranks do not talk, and its environment."""
    workload = lab.workload(steps=STEPS, truth=str(lab.truth(rank)), report=False)
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    return workload, {
        **{name: str(value) for name, value in variables.items()},
        "TRAINTRACE_RUN": str(lab.run_folder),
    }
