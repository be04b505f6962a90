"""What a diagnosis consists of: findings, their gain, the state of each family, the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Clock = Literal["host", "device"]
Severity = Literal["info", "warning", "critical"]
CostBasis = Literal["run", "window"]
GainScope = Literal["run", "loop"]
State = Literal["clean", "finding", "not_measured", "insufficient"]
Outcome = Literal["finding", "balanced", "insufficient_data", "cannot_tell"]

FAMILIES: Final[tuple[str, ...]] = (
    "step_time",
    "between_steps",
    "ranks",
    "communication",
    "memory",
    "system",
    "process",
    "convergence",
    "efficiency",
    "stages",
)

# Answers that a verdict may give without a finding.
ANSWERS: Final[tuple[str, ...]] = ("BALANCED", "INCOMPLETE_DATA", "TOO_FEW_STEPS", "CANNOT_TELL")

SEVERITY_ORDER: Final[Mapping[Severity, int]] = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Gain:
    """What removing a cause would win.

    Intervals are about the steps of this run. Runs of the same code differ by a few percent as well,
    which one run cannot tell.

    Attributes:
        speedup: Time now over time without the cause; more than 1.
        low: Lower end of the 95 % interval, and `speedup` itself where the sums are exact; 1.0
            where `speedup` is an upper bound (host clock of an accelerator, or a cause that no
            change removes as a whole); None where nothing allows an interval, e.g. too few steps.
        high: Upper end of the interval, None as for `low`.
        clock: Clock of the time that was removed.
        scope: What gets faster: "run", the whole traced span; "loop", the training loop after its
            warm-up, without start-up and shutdown.
    """

    speedup: float
    low: float | None
    high: float | None
    clock: Clock
    scope: GainScope


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of lost time, or an observation of severity "info".

    Attributes:
        id: Stable within a run: the kind in lower case with hyphens, a number behind it for the second of a
            kind and further ones.
        kind: One of `registry.KINDS[family]`.
        confidence: 0 to 1, the chance that the measured share truly exceeds its limit, lowered
            where the clock cannot separate causes.
        ranks: Ranks that the finding is about.
        evidence: Numbers with the unit in the key (a `share` is 0 to 1); None was not measured.
        cost_s: Seconds lost on the representative rank, never negative.
        cost_basis: "run" for an exact sum over the whole run; "window" for the mean over the window
            times the number of steps or epochs of the run.
        gain: None where nothing would be won.
        headline: One line. why: the evidence in words. action: what to change.
    """

    id: str
    kind: str
    family: str
    severity: Severity
    confidence: float
    ranks: tuple[int, ...]
    evidence: Mapping[str, float | int | str | None]
    cost_s: float
    cost_basis: CostBasis
    gain: Gain | None
    headline: str
    why: str
    action: str


@dataclass(frozen=True, slots=True)
class FamilyState:
    """What is known about one family of causes.

    Attributes:
        reason: One sentence: what was examined, or why it was not.
        primary: Kind of the costliest finding that is a warning or worse, else None.
    """

    state: State
    reason: str
    primary: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer to "why is my training slow?".

    Attributes:
        kind: Kind of the finding chosen, or one of `ANSWERS`.
        cost_s: None where no cause is named. cost_basis: None as for `cost_s`.
        gain: None where nothing would be won or nothing is named.
    """

    kind: str
    outcome: Outcome
    severity: Severity
    confidence: float
    headline: str
    why: str
    action: str
    cost_s: float | None
    cost_basis: CostBasis | None
    gain: Gain | None
