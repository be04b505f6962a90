"""What differs between runs of the same code, and between the steps of one: simulated.

A run is 500 steps after its warm-up, with 5 % of noise from step to step. What is kept of it is what
the gates read in its summary: the mean of the winsorised ln(step time), and the mean step time.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from traintrace_analysis.statistics import MAD_TO_SD

Floats: TypeAlias = npt.NDArray[np.float64]

STEPS: Final = 500
STEP_CV: Final = 0.05
_CHUNK: Final = 4_000


@dataclass(frozen=True, slots=True)
class Steps:
    """Noise from step to step.

    Attributes:
        ar: Correlation of a step with the next.
        spikes: Share of steps that take 2 to 10 times as long.
        endless: Whether spikes follow Pareto's law with exponent 1.5 instead, from 2 times as long: without a variance.
        hit_runs: Share of runs that have spikes at all.
        tails: "t3" draws from Student's t with 3 degrees of freedom, of the same standard deviation.
        stall: What each 20th step takes longer, in usual steps.
    """

    name: str
    ar: float = 0.0
    spikes: float = 0.0
    endless: bool = False
    hit_runs: float = 1.0
    tails: Literal["normal", "t3"] = "normal"
    stall: float = 0.0


@dataclass(frozen=True, slots=True)
class Runs:
    """Noise from run to run, in logarithms.

    Attributes:
        sd: Standard deviation of a run's level.
        drift: Added to each run after the one before.
        wander: Standard deviation of a random walk of the level.
        shift: A jump of the level at a random run.
        tails: As for steps; "skewed" draws from the exponential distribution.
    """

    name: str
    sd: float
    drift: float = 0.0
    wander: float = 0.0
    shift: float = 0.0
    tails: Literal["normal", "t3", "skewed"] = "normal"


STEP_NOISE: Final = (
    Steps("independent"),
    Steps("AR 0.5", ar=0.5),
    Steps("AR 0.9", ar=0.9),
    Steps("AR 0.5, 1 % spikes", ar=0.5, spikes=0.01),
    Steps("heavy tails", tails="t3"),
    Steps("AR 0.5, 5 % spikes", ar=0.5, spikes=0.05),
    Steps("AR 0.5, 1 % spikes without end", ar=0.5, spikes=0.01, endless=True),
    Steps("AR 0.5, 10 % spikes in one run of five", ar=0.5, spikes=0.10, hit_runs=0.2),
)
USUAL_STEPS: Final = STEP_NOISE[3]
STALL_EVERY: Final = 20


def run_noise(sd: float) -> tuple[Runs, ...]:
    """Give the kinds of noise between runs, at one standard deviation."""
    return (
        Runs("normal", sd),
        Runs("drift 2 % a run", sd, drift=0.02),
        Runs("wandering 1 % a run", sd, wander=0.01),
        Runs("jump of 10 %", sd, shift=0.10),
        Runs("heavy tails", sd, tails="t3"),
        Runs("skewed", sd, tails="skewed"),
    )


@dataclass(frozen=True, slots=True)
class RunLogs:
    """What the gates read of runs, trials by runs in the order of starts, as logarithms.

    Attributes:
        usual: Mean of the winsorised ln(step time). mean: ln of the mean step time.
    """

    usual: Floats
    mean: Floats

    def slowed(self, log: Floats) -> "RunLogs":
        """Give the runs that take longer by so much."""
        return RunLogs(self.usual + log, self.mean + log)

    def columns(self, chosen: slice | npt.NDArray[np.bool_]) -> "RunLogs":
        """Give some of the runs of each trial."""
        return RunLogs(self.usual[:, chosen], self.mean[:, chosen])


@dataclass(frozen=True, slots=True)
class StepPart:
    """What the steps add to runs, trials by runs: error of the log mean, of the mean, and the log sd."""

    log_mean: Floats
    log_of_mean: Floats
    log_sd: Floats

    def of(self, levels: Floats) -> RunLogs:
        """Give what the gates read of runs with such levels."""
        return RunLogs(levels + self.log_mean, levels + self.log_of_mean)

    def with_runs(self, chosen: npt.NDArray[np.bool_], other: "StepPart") -> "StepPart":
        """Give the same with other steps in the chosen runs of each trial."""
        parts = [
            (self.log_mean.copy(), other.log_mean),
            (self.log_of_mean.copy(), other.log_of_mean),
            (self.log_sd.copy(), other.log_sd),
        ]
        for kept, new in parts:
            kept[:, chosen] = new
        return StepPart(*(kept for kept, _ in parts))


def draw_steps(noise: Steps, trials: int, runs: int, rng: np.random.Generator) -> StepPart:
    """Simulate the steps of trials times runs; the level of every run is one."""
    parts: list[tuple[Floats, Floats, Floats]] = []
    for start in range(0, trials * runs, _CHUNK):
        logs = _logs(noise, min(_CHUNK, trials * runs - start), rng)
        pulled = winsorise_rows(logs)
        parts.append(
            (
                pulled.mean(axis=1, dtype=np.float64),
                np.log(np.exp(logs).mean(axis=1, dtype=np.float64)),
                pulled.std(axis=1, ddof=1, dtype=np.float64),
            )
        )
    log_mean, log_of_mean, log_sd = (
        np.concatenate(part).reshape(trials, runs) for part in zip(*parts, strict=True)
    )
    return StepPart(log_mean, log_of_mean, log_sd)


def draw_levels(noise: Runs, trials: int, runs: int, rng: np.random.Generator) -> Floats:
    """Simulate the levels of runs in the order they are started, trials by runs."""
    if noise.tails == "t3":
        own = rng.standard_t(3, (trials, runs)) / np.sqrt(3.0)
    elif noise.tails == "skewed":
        own = rng.exponential(1.0, (trials, runs))
    else:
        own = rng.standard_normal((trials, runs))
    levels = noise.sd * own + noise.drift * np.arange(runs)
    if noise.wander:
        levels += np.cumsum(noise.wander * rng.standard_normal((trials, runs)), axis=1)
    if noise.shift:
        levels += noise.shift * (np.arange(runs) >= rng.integers(0, runs, (trials, 1)))
    return np.asarray(levels, dtype=np.float64)


def winsorise_rows(logs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Winsorise each row as `traintrace_analysis.statistics.winsorise` does one series."""
    middle = np.median(logs, axis=1, keepdims=True)
    spread = np.float32(MAD_TO_SD) * np.median(np.abs(logs - middle), axis=1, keepdims=True)
    return np.clip(logs, middle - 10 * spread, middle + 5 * spread)


def _logs(noise: Steps, runs: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    if noise.tails == "t3":
        shocks = (rng.standard_t(3, (STEPS, runs)) / np.sqrt(3.0)).astype(np.float32)
    else:
        shocks = rng.standard_normal((STEPS, runs), dtype=np.float32)
    if noise.ar:
        fresh = np.float32(np.sqrt(1.0 - noise.ar**2))
        for step in range(1, STEPS):
            shocks[step] = noise.ar * shocks[step - 1] + fresh * shocks[step]
    logs = np.float32(STEP_CV) * shocks
    if noise.spikes:
        chance = np.float32(noise.spikes) * (rng.random(runs) < noise.hit_runs)
        hit = rng.random((STEPS, runs), dtype=np.float32) < chance.astype(np.float32)
        logs[hit] += _spikes(noise, int(hit.sum()), rng)
    if noise.stall:
        logs[::STALL_EVERY] = np.log(np.exp(logs[::STALL_EVERY]) + np.float32(noise.stall))
    return np.ascontiguousarray(logs.T)


def _spikes(noise: Steps, count: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Give by how much steps are longer, as logarithms."""
    if noise.endless:
        logs = np.log(2.0) + rng.exponential(1.0 / 1.5, count)
    else:
        logs = np.log(rng.uniform(2.0, 10.0, count))
    return np.asarray(logs, dtype=np.float32)
