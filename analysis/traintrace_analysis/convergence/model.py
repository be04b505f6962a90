"""What is known of how training went; plain records."""

from dataclasses import dataclass
from typing import Final

from traintrace_analysis.convergence.course import Plateau, Rise, Trend
from traintrace_analysis.convergence.explained import Explained
from traintrace_analysis.convergence.names import Role
from traintrace_analysis.convergence.spikes import Spike
from traintrace_analysis.convergence.together import Meeting

_LONGEST: Final = 60  # characters of a name in a sentence


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that became infinite or NaN and never came back.

    Attributes:
        step: The first such step. values: how many were logged since, that one included.
    """

    step: int
    values: int


@dataclass(frozen=True, slots=True)
class Course:
    """One logged value over the run; every number is finite.

    Attributes:
        count: Values logged. not_finite: how many of them were infinite or NaN.
        first_step, last_step: Where the first and the last were logged.
        first, last: Medians of the first and the last hundredth (five values at least); None if none was finite.
        lowest, highest: Extremes of the medians of as many values, with the steps where they end; so that one
            lucky batch is no best.
        trend: None for a value that is described only by its numbers.
        lost, rise, plateau, spikes: Looked for in losses and gradient norms only.
    """

    name: str
    role: Role
    count: int
    not_finite: int
    first_step: int
    last_step: int
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    lowest_step: int | None = None
    highest: float | None = None
    highest_step: int | None = None
    trend: Trend | None = None
    lost: Lost | None = None
    rise: Rise | None = None
    plateau: Plateau | None = None
    spikes: tuple[Spike, ...] = ()

    @property
    def short_name(self) -> str:
        """Give the name as a sentence can hold it."""
        return self.name if len(self.name) <= _LONGEST else f"{self.name[: _LONGEST - 3]}..."


@dataclass(frozen=True, slots=True)
class Convergence:
    """How training went, by what was logged on one rank.

    Attributes:
        rank: The rank that logged it; None if no rank logged anything.
        loss, grad_norm: None if no logged name is that of one; see `names`.
        others: What else was logged, at most twelve values: losses of an evaluation or a game first.
        meetings: Steps at which signals that are measured apart stick out together.
        explained: What the amount of data per step explains of the step time; None if it is not known,
            or always the same.
    """

    rank: int | None
    loss: Course | None
    grad_norm: Course | None
    others: tuple[Course, ...]
    meetings: tuple[Meeting, ...]
    explained: Explained | None

    @property
    def lost_from(self) -> int | None:
        """Give the first step from which on loss or gradient norm were never finite again."""
        lost = [one.lost.step for one in (self.loss, self.grad_norm) if one and one.lost]
        return min(lost, default=None)
