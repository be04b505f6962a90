"""Runs in which nothing happens: what healthy training logs, by kind of noise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from traintrace_analysis.step_window import Floats

Random: TypeAlias = np.random.Generator


@dataclass(slots=True, eq=False)
class Curves:
    """What a run of one rank shows, a value a step.

    Attributes:
        every: Loss and gradient norm are logged each `every` steps.
    """

    loss: Floats
    grad_norm: Floats
    step_ms: Floats
    memory_mb: Floats
    tokens: Floats
    padded_tokens: Floats
    every: int = 1


Draw: TypeAlias = Callable[[Random, int], Floats]


def _gaussian(random: Random, steps: int) -> Floats:
    return random.normal(size=steps)


def _t3(random: Random, steps: int) -> Floats:
    return random.standard_t(3, size=steps)


def _heteroscedastic(random: Random, steps: int) -> Floats:
    """Each batch has noise of its own size, and the sizes rise and fall over the run."""
    wave = 1.5 + np.sin(np.arange(steps) / (steps / 9.0))
    drawn: Floats = wave * np.exp(0.5 * random.normal(size=steps)) * random.normal(size=steps)
    return drawn


def autoregressive(memory: float) -> Draw:
    """Make noise of unit size that remembers `memory` of itself from step to step."""

    def draw(random: Random, steps: int) -> Floats:
        pushes = random.normal(size=steps) * np.sqrt(1.0 - memory**2)
        values = np.empty(steps)
        value = random.normal()
        for place in range(steps):
            value = memory * value + pushes[place]
            values[place] = value
        return values

    return draw


def _level(steps: int) -> Floats:
    return np.full(steps, 2.0)


def _power(steps: int) -> Floats:
    """Fall like a language model: a power of the step, to a floor."""
    fallen: Floats = 0.5 + 3.0 * np.power(np.arange(steps) + 5.0, -0.4)
    return fallen


def _decay(steps: int) -> Floats:
    fallen: Floats = 0.3 + 2.0 * np.exp(-np.arange(steps) / (steps / 3.0))
    return fallen


def _line(steps: int) -> Floats:
    return 3.0 - 2.0 * np.arange(steps) / steps


# How the loss goes, its noise, the size of that relative to the loss, and whether it multiplies.
_LOSSES: Final[Mapping[str, tuple[Callable[[int], Floats], Draw, float, bool]]] = {
    "Gaussian": (_level, _gaussian, 0.05, False),
    "lognormal 0.4": (_level, _gaussian, 0.4, True),
    "Student t3": (_level, _t3, 0.02, False),
    "lognormal of t3": (_level, _t3, 0.1, True),
    "AR .5": (_level, autoregressive(0.5), 0.1, False),
    "AR .9": (_level, autoregressive(0.9), 0.1, False),
    "lognormal AR .9": (_level, autoregressive(0.9), 0.3, True),
    "falling as t^-.4": (_power, _gaussian, 0.1, True),
    "falling exponentially": (_decay, _gaussian, 0.05, True),
    "falling in a line, AR .5": (_line, autoregressive(0.5), 0.1, True),
    "heteroscedastic": (_level, _heteroscedastic, 0.05, False),
    "hard batches": (_level, _gaussian, 0.15, True),
}
NOISES: Final = tuple(_LOSSES)


def draw(name: str, steps: int, random: Random, every: int = 1) -> Curves:
    """Draw one run; the same generator state gives the same run.

    Args:
        name: One of `NOISES`.
        steps: Length of the run.
        random: Where numbers come from.
        every: Loss and gradient norm are logged each `every` steps.
    """
    course, noise, size, multiplies = _LOSSES[name]
    drawn, usual = size * noise(random, steps), course(steps)
    loss = usual * np.exp(drawn) if multiplies else usual * (1.0 + drawn)
    gradients = 0.4 * noise(random, steps) if multiplies else 0.2 * noise(random, steps)
    if (
        name == "hard batches"
    ):  # a hard batch has a large loss and large gradients; that is no event
        gradients = 2.0 * drawn + 0.2 * random.normal(size=steps)
    lengths = np.exp(0.3 * random.normal(size=steps))
    padded = np.ceil(32.0 * 200.0 * np.maximum(lengths, 0.2))
    step_ms = (40.0 + 60.0 * padded / padded.mean()) * np.exp(0.05 * random.normal(size=steps))
    step_ms = np.where(random.random(steps) < 0.01, step_ms * 3.0, step_ms)  # every machine stalls
    return Curves(
        loss=loss,
        grad_norm=np.exp(np.clip(gradients, -20.0, 20.0)),
        step_ms=step_ms,
        memory_mb=900.0 + 0.05 * padded + random.normal(size=steps),
        tokens=np.floor(padded * random.uniform(0.85, 1.0, steps)),
        padded_tokens=padded,
        every=every,
    )
