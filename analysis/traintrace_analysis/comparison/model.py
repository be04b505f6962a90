"""The records that a comparison is made of; no calculation but what a name stands for.

Side A is the reference ("before"), side B the candidate ("after"). Differences are B minus A, so a
positive number is slower.
"""

from dataclasses import dataclass
from typing import Literal

from traintrace_analysis.comparison.sides import (
    ComparedRun,
    MetricSide,
    NoiseModel,
    RunFinding,
    Value,
)

__all__ = [
    "ComparedRun",
    "Comparison",
    "ErrorBasis",
    "FigureComparison",
    "FindingChange",
    "FindingTurn",
    "Guard",
    "GuardOutcome",
    "Judgement",
    "MetricComparison",
    "MetricSide",
    "MetricSummary",
    "NoiseModel",
    "PhaseBlame",
    "RunFinding",
    "Value",
    "Verdict",
]

Verdict = Literal[
    "REGRESSION", "IMPROVEMENT", "EQUIVALENT", "MIXED", "INCONCLUSIVE", "INCOMPARABLE"
]
Judgement = Literal["regressed", "improved", "equivalent", "moved", "open", "unknown"]
FindingTurn = Literal["appeared", "worse", "same", "better", "gone", "unknown"]
ErrorBasis = Literal["runs", "noise_model", "assumed"]
GuardOutcome = Literal["WITHIN_THRESHOLD", "FASTER", "SLOWER", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """One metric on one side: the mean over its runs, in ms per step; None if a run lacks it."""

    available: bool
    mean_ms: float | None
    runs: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric on both sides.

    Attributes:
        difference_ms: Mean of B minus mean of A, per step. low_ms, high_ms: its interval.
        ratio: Typical step of B over that of A (outliers pulled in) where every step took time, else
            the ratio of the means. ratio_low, ratio_high: its interval.
        smallest_detectable_ms: The least change of the mean that such runs would show, 8 times in 10.
        smallest_detectable: The same for the ratio, as a share: 0.05 is 5 %.
        judged: "regressed" and "improved" are beyond chance and large enough to matter; "equivalent"
            is proven small; "moved" changed places with another phase; "open" is measured and not
            decided; "unknown" is not measured on both sides.
        reason: Why it was judged so, in one sentence.
        p_value: Two-sided, before Holm's correction; None if unknown.
    """

    name: str
    a: MetricSummary
    b: MetricSummary
    difference_ms: float | None
    low_ms: float | None
    high_ms: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    smallest_detectable_ms: float | None
    smallest_detectable: float | None
    judged: Judgement
    reason: str
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class PhaseBlame:
    """One account's part in the change of the time per step, in seconds.

    Attributes:
        place: "step" for an account inside steps, "between" for one between them.
        difference_s: B minus A, seconds per step. low_s, high_s: its interval, wide enough for all
            accounts together (Holm).
        share_of_change: Of the change of the step time, 1 is all of it; None unless that has changed
            beyond chance, and for accounts between steps.
        partner: The account that shrank as this one grew, or the other way round, if "moved".
    """

    name: str
    place: Literal["step", "between"]
    a_s: float | None
    b_s: float | None
    difference_s: float | None
    low_s: float | None
    high_s: float | None
    share_of_change: float | None
    judged: Judgement
    partner: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class FindingChange:
    """One kind of finding on both sides.

    Attributes:
        before, after: Its severity, "none" if its family was examined and does not name it, "unknown"
            if the family was not examined.
        turn: "unknown" whenever a side is unknown: what was not examined is neither better nor worse.
    """

    kind: str
    family: str
    before: str
    after: str
    turn: FindingTurn
    before_cost_s: float | None
    after_cost_s: float | None


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A figure of throughput, memory, system or process on both sides; None was not measured.

    Attributes:
        section: "throughput", "memory", "system" or "process".
        judged: "regressed" or "improved" only for figures where one direction is worse, and only
            beyond what runs differ by; else "open" or "unknown".
    """

    section: str
    name: str
    a: float | None
    b: float | None
    difference: float | None
    ratio: float | None
    judged: Judgement


@dataclass(frozen=True, slots=True)
class Guard:
    """The answer to "is a step of B slower by more than the threshold?".

    Attributes:
        max_regression: The threshold, a share; a change that equals it is within.
        outcome: SLOWER and WITHIN_THRESHOLD are both beyond chance; INCONCLUSIVE is neither, or not
            comparable.
    """

    max_regression: float
    outcome: GuardOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides compared.

    Attributes:
        verdict: About the time of a step; MIXED where something else that costs says the opposite.
        error_rate: How often runs of the same code would be called a regression or an improvement.
            None if nothing was judged.
        error_basis: Where the noise between runs comes from: the compared "runs" themselves, a stored
            "noise_model", or "assumed" from field practice. None if nothing was judged.
        confidence: `error_rate` and its basis in a sentence.
        headline, why, action: As findings have them.
        metrics: The step time and what else a step consists of, largest change first.
        phases: Leaves that sum to the step, and accounts between steps, largest change first.
        warnings: What may explain a change besides the code, and what limits the comparison.
        guard: None unless a threshold was given.
    """

    verdict: Verdict
    error_rate: float | None
    error_basis: ErrorBasis | None
    confidence: str
    headline: str
    why: str
    action: str
    a: tuple[ComparedRun, ...]
    b: tuple[ComparedRun, ...]
    metrics: tuple[MetricComparison, ...]
    phases: tuple[PhaseBlame, ...]
    findings: tuple[FindingChange, ...]
    figures: tuple[FigureComparison, ...]
    warnings: tuple[str, ...]
    guard: Guard | None = None
