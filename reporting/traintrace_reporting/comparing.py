"""From the paths of two sides to their comparison, and under a threshold to an exit code."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from traintrace.errors import RunReadError
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.model import (
    ComparedRun,
    Comparison,
    GuardOutcome,
    NoiseModel,
    PhaseBlame,
)
from traintrace_analysis.comparison.reading import compared_run
from traintrace_analysis.thresholds import limit as threshold
from traintrace_reporting.finish import JSON_NAME, Summary, read_or_make
from traintrace_reporting.format import milliseconds
from traintrace_reporting.guard_check import check_declaration, measured_summary, obstacles
from traintrace_reporting.remote import local_run

EXIT_CODES: Final[dict[GuardOutcome, int]] = {
    "WITHIN_THRESHOLD": 0,
    "FASTER": 0,
    "INCONCLUSIVE": 3,
    "SLOWER": 4,
}


@dataclass(frozen=True, slots=True)
class Input:
    """One run that is compared.

    Attributes:
        path: The file that was read, for messages.
        summary: What it holds.
    """

    path: Path
    summary: Summary

    def as_run(self, *, guarded: bool) -> ComparedRun:
        """Give what a comparison needs of it: of the measured steps, if guarded.

        Raises:
            RunReadError: The summary contradicts itself; the message names file and field.
        """
        whole = self._checked(self.summary, "")
        if not guarded:
            return whole
        return self._checked(measured_summary(self.summary), "guard.measurement: ")

    def _checked(self, summary: dict[str, Any], within: str) -> ComparedRun:
        try:
            return compared_run(summary)
        except ValueError as error:
            raise RunReadError(f"{self.path}: {within}{error}") from error


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer under a threshold.

    Attributes:
        threshold_pct: Largest regression that is allowed, in percent.
        reasons: Why it is inconclusive, or what it rests on.
        phase: The part of the step that regressed most; None if none stands out.
        line: All of it in one line.
        measured_steps: First and last step that were compared; None if no decision could be made.
    """

    threshold_pct: float
    outcome: GuardOutcome
    reasons: tuple[str, ...]
    phase: str | None
    line: str
    measured_steps: tuple[int, int] | None

    @property
    def exit_code(self) -> int:
        """Give the documented exit code."""
        return EXIT_CODES[self.outcome]


def read_input(text: str) -> Input:
    """Read a run folder, its URL, or a summary file.

    Raises:
        RunReadError: It cannot be used; the message names the file, and the field if one is wrong.
    """
    place = local_run(text)
    summary = read_or_make(place)
    file = place / JSON_NAME if place.is_dir() else place
    try:
        check_declaration(summary)
    except RunReadError as error:
        raise RunReadError(f"{file}: {error}") from error
    return Input(file, summary)


def compare_inputs(
    a: Sequence[Input],
    b: Sequence[Input],
    *,
    threshold_pct: float | None = None,
    noise: NoiseModel | None = None,
) -> tuple[Comparison, Answer | None]:
    """Compare two sides, and decide if a threshold is given.

    Args:
        a: Runs of the reference.
        b: Runs of the candidate.
        threshold_pct: Largest regression of the step time that is allowed, in percent.
        noise: How much runs of the same code differ here.

    Raises:
        RunReadError: A summary contradicts itself.
    """
    if threshold_pct is None:
        return compare(*_sides(a, b, guarded=False), noise=noise), None
    against = _every_obstacle(a, b)
    if against:
        comparison = compare(*_sides(a, b, guarded=False), noise=noise)
        line = f"INCONCLUSIVE: {against[0]}"
        return comparison, Answer(threshold_pct, "INCONCLUSIVE", against, None, line, None)
    limit = threshold_pct / 100.0
    comparison = compare(*_sides(a, b, guarded=True), noise=noise, max_regression=limit)
    return comparison, _answer(comparison, threshold_pct, a[0])


def _sides(
    a: Sequence[Input], b: Sequence[Input], *, guarded: bool
) -> tuple[list[ComparedRun], list[ComparedRun]]:
    return [one.as_run(guarded=guarded) for one in a], [one.as_run(guarded=guarded) for one in b]


def _every_obstacle(a: Sequence[Input], b: Sequence[Input]) -> tuple[str, ...]:
    """Hold every run against the first one, so that one side is of one kind as well."""
    names = [*_names("A", len(a)), *_names("B", len(b))]
    reference, *others = (*a, *b)
    return tuple(
        dict.fromkeys(
            told
            for name, one in zip(names[1:], others, strict=True)
            for told in obstacles(reference.summary, one.summary, (names[0], name))
        )
    )


def _names(side: str, count: int) -> list[str]:
    return [side] if count == 1 else [f"{side}{number}" for number in range(1, count + 1)]


def _answer(comparison: Comparison, threshold_pct: float, reference: Input) -> Answer:
    guard = comparison.guard
    assert guard is not None  # a threshold was given
    blamed = blamed_phase(comparison) if guard.outcome == "SLOWER" else None
    measured = reference.summary["guard"]["declaration"]["measurement"]
    first = measured["start_step"]
    line = f"{guard.outcome}: {_change(comparison, threshold_pct)}"
    if blamed is not None:
        line += f", {_told(blamed)}"
    elif guard.outcome == "SLOWER":
        line += ", no single phase stands out"
    elif guard.outcome == "INCONCLUSIVE":
        line += f": {guard.reason}"
    return Answer(
        threshold_pct,
        guard.outcome,
        (guard.reason,),
        None if blamed is None else blamed.name,
        line,
        (first, first + measured["completed_steps"] - 1),
    )


def _change(comparison: Comparison, threshold_pct: float) -> str:
    """Give the change of the usual step, and the means, which long steps move."""
    limit = f"limit {threshold_pct:g} %"
    step = next((one for one in comparison.metrics if one.name == "step_time"), None)
    if step is None or not step.a.mean_ms or not step.b.mean_ms or step.ratio is None:
        return limit
    scale = max(step.a.mean_ms, step.b.mean_ms)
    a, b = (milliseconds(side.mean_ms, scale) for side in (step.a, step.b))
    usual, mean = step.ratio - 1.0, step.b.mean_ms / step.a.mean_ms - 1.0
    told = f"step {100.0 * usual:+.1f} %"
    if abs(math.log1p(mean) - math.log1p(usual)) > threshold("tail_disagreement"):
        told = f"usual {told}, mean step {100.0 * mean:+.1f} %"
    return f"{told} ({limit}), mean {a} -> {b} ms"


def blamed_phase(comparison: Comparison) -> PhaseBlame | None:
    """Give the part of the step that lost most, if it is beyond chance."""
    worse = [
        one
        for one in comparison.phases
        if one.place == "step" and one.judged == "regressed" and one.difference_s is not None
    ]
    return max(worse, key=lambda one: one.difference_s or 0.0, default=None)


def _told(blamed: PhaseBlame) -> str:
    lost_ms = (blamed.difference_s or 0.0) * 1e3
    return f"{blamed.name} +{milliseconds(lost_ms, lost_ms)} ms"
