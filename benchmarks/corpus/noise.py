"""Shapes of noise: how the time of one kind of work differs from step to step.

A shape is a series of positive factors around 1 by which a usual time is multiplied. Every series is
drawn from the generator that is handed in, so the same seed gives the same run on any machine.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.step_window import Floats

_LEAST: Final = 0.2  # no real work takes less than a fifth of its usual time


@dataclass(frozen=True, slots=True)
class Noise:
    """One shape with its size.

    Attributes:
        shape: A key of `SHAPES`.
        cv: Coefficient of variation without spikes.
        memory: Lag-1 autocorrelation, 0 to 0.9; of shapes that are not periodic.
        spike_share: Share of steps that are spikes. spike_size: what a spike adds, in usual times.
        period: Length in steps of sawtooth, periodic and bimodal patterns.
    """

    shape: str
    cv: float
    memory: float = 0.0
    spike_share: float = 0.0
    spike_size: float = 0.0
    period: int = 10

    def factors(self, chance: np.random.Generator, count: int) -> Floats:
        """Draw `count` factors."""
        drawn = np.maximum(SHAPES[self.shape](self, chance, count), _LEAST)
        if self.spike_share > 0.0:
            drawn = drawn + self.spike_size * (chance.random(count) < self.spike_share)
        return drawn


def draw_noise(
    chance: np.random.Generator,
    *,
    cv: tuple[float, float] = (0.01, 0.20),
    most_memory: float = 0.9,
) -> Noise:
    """Draw a shape; its size is uniform on a logarithmic scale.

    Spikes lose at most 1.5 % of the time together: 1 % of steps of 2.5 usual times each.
    """
    shape = str(chance.choice(list(SHAPES)))
    spiky = chance.random() < 0.5
    return Noise(
        shape=shape,
        cv=math.exp(chance.uniform(math.log(cv[0]), math.log(cv[1]))),
        memory=min(most_memory, float(chance.choice([0.0, 0.0, 0.3, 0.5, 0.7, 0.9]))),
        spike_share=float(chance.uniform(0.0, 0.01)) if spiky else 0.0,
        spike_size=float(chance.uniform(0.5, 1.5)) if spiky else 0.0,
        period=int(chance.choice([2, 4, 5, 8, 10, 16, 50])),
    )


def _wave(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    """Draw standard normal values with lag-1 autocorrelation `noise.memory`."""
    fresh = chance.standard_normal(count)
    if noise.memory == 0.0 or count < 2:
        return fresh
    # The response to one shock dies away; past 1e-4 of it nothing is left to see.
    length = min(count, math.ceil(math.log(1e-4) / math.log(noise.memory)))
    response = noise.memory ** np.arange(length)
    lead = chance.standard_normal(length)
    shocks = np.concatenate([lead, fresh])
    wave: Floats = np.convolve(shocks, response)[length : length + count]
    return wave * math.sqrt(1.0 - noise.memory**2)


def _normal(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    return 1.0 + noise.cv * _wave(noise, chance, count)


def _log_normal(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    sigma = math.sqrt(math.log1p(noise.cv**2))
    return np.exp(sigma * _wave(noise, chance, count) - 0.5 * sigma**2)


def _gamma(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    """Draw gamma factors with memory: the cube of a normal one (Wilson and Hilferty 1931)."""
    ninth = noise.cv**2 / 9.0
    return (1.0 - ninth + math.sqrt(ninth) * _wave(noise, chance, count)) ** 3


def _sawtooth(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    """Climb for a period and fall back at once, as with a queue that runs empty and is refilled."""
    phase = (np.arange(count) + int(chance.integers(noise.period))) % noise.period
    ramp = (phase + 0.5) / noise.period - 0.5
    reach = noise.cv * math.sqrt(12.0)
    return 1.0 + reach * 0.95 * ramp + 0.3 * noise.cv * chance.standard_normal(count)


def _bimodal(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    """Change between a fast and a slow level by chance, e.g. two batch shapes."""
    slow = chance.random(count) < 0.5
    return 1.0 + noise.cv * (0.95 * np.where(slow, 1.0, -1.0) + 0.3 * chance.standard_normal(count))


def _periodic(noise: Noise, chance: np.random.Generator, count: int) -> Floats:
    """Make each step number `period` slower, e.g. work that is done every few steps."""
    phase = (np.arange(count) + int(chance.integers(noise.period))) % noise.period
    height = noise.cv * noise.period / math.sqrt(max(1.0, noise.period - 1.0))
    height = min(height, 1.0)  # a tall regular peak would be a finding of its own
    pulse = height * ((phase == 0) - 1.0 / noise.period)
    drawn: Floats = 1.0 + pulse + 0.2 * noise.cv * chance.standard_normal(count)
    return drawn


SHAPES: Final[Mapping[str, Callable[[Noise, np.random.Generator, int], Floats]]] = {
    "normal": _normal,
    "log_normal": _log_normal,
    "gamma": _gamma,
    "sawtooth": _sawtooth,
    "bimodal": _bimodal,
    "periodic": _periodic,
}
