"""The canonical window: the steps that all ranks completed, aligned, as matrices.

Matrices are ranks by steps, in nanoseconds as float64, with NaN for "not measured".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from traintrace.facts import RankFacts
from traintrace_analysis.findings import Clock

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
MetricClock: TypeAlias = Literal["host", "device", "derived"]


@dataclass(frozen=True, slots=True, eq=False)
class StepWindow:
    """The latest steps that all participating ranks completed, aligned.

    Attributes:
        attempt: The attempt that is analysed: the latest with completed steps.
        expected_ranks: Every rank of the job, whether or not it recorded anything.
        ranks: The participating ranks, those with at least one row; the order of all matrix rows.
        facts: What each of `ranks` recorded, in that order.
        strategy: How the ranks share the model, as in `facts.Setup`; None if a rank does not say or
            two say different things.
        steps: Common step ids, ascending.
        warmup_steps: Leading steps of the window that belong to the warm-up.
        clock: The one clock that the selected phases are on.
        accelerator: True if the model ran on a device that works on its own; its host times then
            say where the host was, not what the device did.
        start_ns, open_ns, close_ns: Moments as integers: the row's start, the step's open and close.
        flags: Bits of `traintrace.facts`.
        samples, tokens: Work per step, NaN where unknown.
        host: Matrix by account or derived metric on the host clock.
        device: Matrix by phase (and compute) on the device clock; empty without one.
        between: Time before the step in its row, by between-step account.
        inside: Time inside the step by between-step account; already taken out of `step_time`.
        memory: Bytes by column of the steps table; a column that no rank measured has no key.
        gc_ns: Time in Python's garbage collector on the training thread; None if nobody watched.
        reasons: Why a metric is missing, by metric.
    """

    attempt: int
    expected_ranks: tuple[int, ...]
    ranks: tuple[int, ...]
    facts: tuple[RankFacts, ...]
    strategy: str | None
    steps: Ints
    warmup_steps: int
    clock: Clock
    accelerator: bool
    start_ns: Ints
    open_ns: Ints
    close_ns: Ints
    flags: Ints
    samples: Floats
    tokens: Floats
    host: Mapping[str, Floats]
    device: Mapping[str, Floats]
    between: Mapping[str, Floats]
    inside: Mapping[str, Floats]
    memory: Mapping[str, Floats]
    gc_ns: Floats | None
    reasons: Mapping[str, str]

    @property
    def steady_steps(self) -> int:
        """Number of steps after the warm-up."""
        return len(self.steps) - self.warmup_steps

    def clock_of(self, metric: str) -> MetricClock:
        """Give the clock that `metric` is on in this window: "derived" if it mixes both."""
        if self.clock == "host":
            return "host"
        if metric == "residual":
            return "derived"
        return "device" if metric in self.device else "host"

    def selected(self, metric: str) -> Floats | None:
        """Give the whole window of `metric` on its clock, None if it was never measured."""
        source = self.device if self.clock_of(metric) == "device" else self.host
        return source.get(metric)

    def steady(self, metric: str) -> Floats | None:
        """Give `metric` after the warm-up, None if it was never measured."""
        matrix = self.selected(metric)
        return None if matrix is None else matrix[:, self.warmup_steps :]
