"""Play runs of noise and runs with events, and count what is found."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import numpy as np

from benchmarks.convergence.events import EVENTS
from benchmarks.convergence.noise import NOISES, draw
from benchmarks.convergence.runs import findings_of

LENGTHS: Final = (1_000, 10_000)
SPARSE: Final = 50
# Other draws than those that limits were tried on.
_DRAW: Final = "second"


@dataclass(frozen=True, slots=True)
class Quiet:
    """Runs of one kind of noise: how many had a finding of any severity, and of which kinds."""

    noise: str
    steps: int
    every: int
    runs: int
    false: int
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Give the share of runs with a finding."""
        return self.false / self.runs


@dataclass(frozen=True, slots=True)
class Loud:
    """Runs with one kind of event: how many were found."""

    event: str
    steps: int
    every: int
    runs: int
    found: int

    @property
    def recall(self) -> float:
        """Give the share of events that were found."""
        return self.found / self.runs


# The longest first, so that several processes end together.
NOISE_CASES: Final = tuple(
    (noise, steps, every)
    for steps in sorted(LENGTHS, reverse=True)
    for every in (1, SPARSE)
    for noise in NOISES
)
EVENT_CASES: Final = tuple(
    (name, steps, every)
    for steps in sorted(LENGTHS, reverse=True)
    for name, event in EVENTS.items()
    for every in (1, SPARSE)
    if steps >= event.least_steps and (every == 1 or (event.sparse and steps > 5_000))
)


def play_noise(noise: str, steps: int, every: int, runs: int) -> Quiet:
    """Play runs of one kind of noise, with values logged each `every` steps; always the same runs."""
    random = np.random.default_rng(crc32(f"{_DRAW} {noise} {steps} {every}".encode()))
    kinds: Counter[str] = Counter()
    false = 0
    for _ in range(runs):
        found = {finding.kind for finding in findings_of(draw(noise, steps, random, every))}
        false += bool(found)
        kinds.update(found)
    return Quiet(noise, steps, every, runs, false, dict(kinds))


def play_event(name: str, steps: int, every: int, runs: int) -> Loud:
    """Play runs with one kind of event, spread over its kinds of noise; always the same runs."""
    event = EVENTS[name]
    random = np.random.default_rng(crc32(f"{_DRAW} {name} {steps} {every}".encode()))
    found = 0
    for number in range(runs):
        curves = draw(event.noises[number % len(event.noises)], steps, random, every)
        low, high = event.span
        at = int(random.uniform(low, high) * steps) // every * every
        event.inject(curves, at, random)
        kinds = {finding.kind for finding in findings_of(curves)}
        found += any(kind in kinds for kind in event.kind.split(" or "))
    return Loud(name, steps, every, runs, found)
