"""Which phase: the same test for every account in seconds per step, with Holm's correction.

Shares of a step are no evidence: one moves when another phase does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace_analysis.comparison.estimates import Estimate, Level, difference
from traintrace_analysis.comparison.metric_table import Contrast
from traintrace_analysis.comparison.model import ComparedRun, Judgement, PhaseBlame
from traintrace_analysis.comparison.run_noise import RunNoise
from traintrace_analysis.thresholds import limit

BETWEEN: Final = ("epoch_boundary", "evaluation", "prediction", "checkpoint", "logging", "gap")
"""Accounts between steps that belong to the loop; start-up and shutdown happen once."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    place: Literal["step", "between"]
    a_ms: float | None
    b_ms: float | None
    estimate: Estimate | None
    reason: str

    @property
    def size_ms(self) -> float:
        return ((self.a_ms or 0.0) + (self.b_ms or 0.0)) / 2.0


def blame_phases(
    contrasts: Mapping[str, Contrast],
    a: Sequence[ComparedRun],
    b: Sequence[ComparedRun],
    noise: RunNoise,
    *,
    lengths_differ: bool,
    obstacle: str,
    step_change_ms: float | None,
) -> tuple[PhaseBlame, ...]:
    """Judge every account, largest change first.

    Args:
        contrasts: The metrics on both sides.
        a: Runs of the reference.
        b: Runs of the candidate.
        noise: Between runs.
        lengths_differ: Whether what happens once in a while cannot be compared per step.
        obstacle: Why nothing inside steps can be judged; "" if it can.
        step_change_ms: Change of the mean step time if that is beyond chance, else None.
    """
    parts = [
        _Part(name, "step", of.a.mean_ms, of.b.mean_ms, of.mean, of.reason)
        for name in STEP_ACCOUNT_NAMES
        if (of := contrasts.get(name)) is not None and (of.a.available or of.b.available)
    ]
    parts += _between(a, b, noise, lengths_differ)
    known = [part for part in parts if part.estimate is not None]
    levels = _holm([part.estimate.p_value for part in known if part.estimate is not None])
    judged = dict(zip((part.name for part in known), levels, strict=True))
    blames = [
        _blame(part, judged.get(part.name, False), len(known), noise.step_ms, step_change_ms)
        for part in parts
    ]
    if obstacle:
        blames = [_undecided(one, obstacle) for one in blames]
    return tuple(sorted(_moved(blames), key=lambda one: -abs(one.difference_s or 0.0)))


def _between(
    a: Sequence[ComparedRun], b: Sequence[ComparedRun], noise: RunNoise, lengths_differ: bool
) -> list[_Part]:
    parts = []
    for name in BETWEEN:
        if not any(name in run.accounts_s_per_step for run in (*a, *b)):
            continue
        sides = [[1e3 * run.accounts_s_per_step.get(name, 0.0) for run in side] for side in (a, b)]
        one, other = (math.fsum(side) / len(side) for side in sides)
        reason, estimate = "", None
        if not all(run.accounts_s_per_step for run in (*a, *b)):
            reason = "a run has no ledger"
        elif lengths_differ:
            reason = "the runs differ in length, so what happens now and then cannot be compared"
        else:
            before, after = ([Level(value, 0.0, math.inf) for value in side] for side in sides)
            estimate = difference(before, after, noise.of_mean(name, (one + other) / 2.0))
        parts.append(_Part(name, "between", one, other, estimate, reason))
    return parts


def _blame(
    part: _Part, significant: bool, tests: int, step_ms: float, step_change_ms: float | None
) -> PhaseBlame:
    judged, reason = _judge(part, significant, step_ms)
    low = high = None
    share = None
    if part.estimate is not None:
        low, high = part.estimate.interval(limit("comparison_error") / tests)
        if step_change_ms and part.place == "step":
            share = part.estimate.value / step_change_ms
    return PhaseBlame(
        name=part.name,
        place=part.place,
        a_s=_seconds(part.a_ms),
        b_s=_seconds(part.b_ms),
        difference_s=_seconds(None if part.estimate is None else part.estimate.value),
        low_s=_seconds(low),
        high_s=_seconds(high),
        share_of_change=share,
        judged=judged,
        partner=None,
        reason=reason,
    )


def _undecided(one: PhaseBlame, obstacle: str) -> PhaseBlame:
    return one if one.judged == "unknown" else replace(one, judged="open", reason=obstacle)


def _judge(part: _Part, significant: bool, step_ms: float) -> tuple[Judgement, str]:
    if part.estimate is None:
        return "unknown", part.reason
    change = part.estimate.value
    floor = max(
        limit("change_minimum_ms"),
        limit("phase_minimum") * step_ms,
        limit("phase_change_minimum") * part.size_ms,
    )
    if significant and abs(change) >= floor:
        return ("regressed" if change > 0.0 else "improved"), "beyond chance among all accounts"
    margin = max(limit("change_minimum_ms"), limit("change_minimum") * step_ms)
    low, high = part.estimate.interval(2.0 * limit("equivalence_error"))
    if -margin < low and high < margin:
        return "equivalent", f"any difference is less than {margin:.2g} ms a step"
    return "open", f"less than {part.estimate.detectable:.2g} ms a step could not have been seen"


def _holm(p_values: Sequence[float]) -> list[bool]:
    """Tell which hypotheses fall: sorted by p, each against the error over those that are left."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    falls = [False] * len(p_values)
    for place, index in enumerate(order):
        if p_values[index] > limit("comparison_error") / (len(order) - place):
            break
        falls[index] = True
    return falls


def _moved(blames: Sequence[PhaseBlame]) -> list[PhaseBlame]:
    """Pair accounts of which one grew by what another shrank, the largest first."""
    left = sorted(
        (one for one in blames if one.judged in ("regressed", "improved") and one.place == "step"),
        key=lambda one: -abs(one.difference_s or 0.0),
    )
    partners: dict[str, str] = {}
    for one in left:
        if one.name in partners:
            continue
        rest = [other for other in left if other.name not in partners and _cancels(one, other)]
        if rest:
            partner = min(rest, key=lambda other: _remainder(one, other))
            partners[one.name], partners[partner.name] = partner.name, one.name
    return [
        replace(one, judged="moved", partner=partners[one.name], reason=f"changed places with {partners[one.name]}")
        if one.name in partners
        else one
        for one in blames
    ]  # fmt: skip


def _cancels(one: PhaseBlame, other: PhaseBlame) -> bool:
    if one.judged == other.judged:
        return False
    larger = max(abs(one.difference_s or 0.0), abs(other.difference_s or 0.0))
    return _remainder(one, other) <= limit("moved_remainder") * larger


def _remainder(one: PhaseBlame, other: PhaseBlame) -> float:
    return abs((one.difference_s or 0.0) + (other.difference_s or 0.0))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
