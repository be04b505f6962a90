"""Compare two sides of runs: the verdict first, then what it rests on.

    A, B -> comparable? -> aligned -> noise between runs -> step time judged -> phases, figures, findings

Changing places of A and B mirrors everything; what is not finite counts as not measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from traintrace_analysis.comparison import sentences
from traintrace_analysis.comparison.alignment import align
from traintrace_analysis.comparison.comparability import (
    Comparability,
    examine_sides,
    has_step_time,
    usable_noise,
)
from traintrace_analysis.comparison.counterweights import against_the_step_time
from traintrace_analysis.comparison.figures import compare_figures
from traintrace_analysis.comparison.finding_changes import finding_changes
from traintrace_analysis.comparison.guarding import guard_answer
from traintrace_analysis.comparison.long_steps import LongSteps, long_steps, signed_percent
from traintrace_analysis.comparison.metric_table import (
    Contrast,
    contrast,
    equivalence_margin,
    finite,
    judge_ratio,
    tell,
)
from traintrace_analysis.comparison.model import (
    ComparedRun,
    Comparison,
    Judgement,
    MetricComparison,
    NoiseModel,
    PhaseBlame,
    Verdict,
)
from traintrace_analysis.comparison.phases import blame_phases
from traintrace_analysis.comparison.run_noise import RunNoise, run_noise
from traintrace_analysis.comparison.sentences import Told
from traintrace_analysis.thresholds import limit

_VERDICTS: Final[Mapping[Judgement, Verdict]] = {
    "regressed": "REGRESSION",
    "improved": "IMPROVEMENT",
    "equivalent": "EQUIVALENT",
}


def compare(
    a: Sequence[ComparedRun],
    b: Sequence[ComparedRun],
    *,
    noise: NoiseModel | None = None,
    max_regression: float | None = None,
) -> Comparison:
    """Say whether a step of B takes longer than one of A.

    Args:
        a: One run or several of the reference; several are worth far more.
        b: The same of the candidate.
        noise: How much runs of this workload differ on this machine, if that was calibrated.
        max_regression: Also answer whether the step time grew by more than this share.

    Raises:
        ValueError: A side has no run, or the threshold is negative or not finite.
    """
    if not a or not b:
        raise ValueError(f"{'a' if not a else 'b'}: no run to compare")
    if max_regression is not None and not (math.isfinite(max_regression) and max_regression >= 0):
        raise ValueError(f"max_regression: {max_regression!r} is no share of the step time")
    one, other = _finite_runs(a), _finite_runs(b)
    state = examine_sides(one, other)
    if state.clocks_differ or not all(has_step_time(run) for run in (*one, *other)):
        return _without_numbers(one, other, state, max_regression)
    model, about_noise = usable_noise(noise, (*one, *other))
    aligned = align(one, other)
    between_runs = run_noise(aligned.a, aligned.b, model)
    contrasts = {
        name: contrast(name, aligned.a, aligned.b, between_runs) for name in _names(one, other)
    }
    step = contrasts["step_time"]
    obstacle = aligned.obstacle or _too_short((*aligned.a, *aligned.b), between_runs)
    mean = None if obstacle else long_steps(step, (*aligned.a, *aligned.b), between_runs)
    long = mean if mean is not None and mean.apart else None
    judged, reason = _judge_step(step, mean, obstacle)
    changed = step.mean is not None and judged in ("regressed", "improved")
    phases = blame_phases(
        contrasts,
        aligned.a,
        aligned.b,
        between_runs,
        lengths_differ=aligned.lengths_differ,
        obstacle=obstacle,
        step_change_ms=step.mean.value if changed and step.mean is not None else None,
    )
    figures, findings = compare_figures(one, other), finding_changes(one, other)
    metrics = _table(contrasts, judged, reason, phases)
    against = () if judged == "open" else against_the_step_time(judged, long, phases, figures)
    told = Told(
        verdict=_verdict(judged, against, state),
        step=next(metric for metric in metrics if metric.name == "step_time"),
        phases=phases,
        findings=findings,
        against=against,
        long=long,
        noise=between_runs,
        obstacles=state.obstacles,
    )
    texts = sentences.texts(told)
    return Comparison(
        verdict=told.verdict,
        error_rate=None if state.obstacles or obstacle else limit("comparison_error"),
        error_basis=None if state.obstacles or obstacle else between_runs.basis,
        confidence=sentences.confidence(told),
        headline=texts.headline,
        why=texts.why,
        action=texts.action,
        a=one,
        b=other,
        metrics=metrics,
        phases=phases,
        findings=findings,
        figures=figures,
        warnings=(*state.caveats, *about_noise, *aligned.notes, *_outliers(step, long)),
        guard=guard_answer(max_regression, None if obstacle else step.log, mean, state, obstacle),
    )


def _without_numbers(
    a: tuple[ComparedRun, ...],
    b: tuple[ComparedRun, ...],
    state: Comparability,
    max_regression: float | None,
) -> Comparison:
    """Show both sides, and no difference: the numbers do not mean the same."""
    texts = sentences.incomparable(state.obstacles)
    shown = [contrast(name, a, b, None) for name in _names(a, b)]
    return Comparison(
        verdict="INCOMPARABLE",
        error_rate=None,
        error_basis=None,
        confidence=sentences.NOTHING_JUDGED,
        headline=texts.headline,
        why=texts.why,
        action=texts.action,
        a=a,
        b=b,
        metrics=tuple(tell(of, "unknown", of.reason) for of in shown),
        phases=(),
        findings=finding_changes(a, b),
        figures=() if state.clocks_differ else compare_figures(a, b),
        warnings=state.caveats,
        guard=guard_answer(max_regression, None, None, state, ""),
    )


def _judge_step(step: Contrast, mean: LongSteps | None, obstacle: str) -> tuple[Judgement, str]:
    """Judge by the usual step; where that does not change, by the mean, which holds the long steps."""
    if obstacle:
        return "open", obstacle
    judged, reason = judge_ratio(step)
    if mean is None or judged in ("regressed", "improved"):
        return judged, reason
    if mean.apart and mean.judged != "open":
        return mean.judged, f"{mean.told}, beyond chance: long steps; the usual step: {reason}"
    if judged == "equivalent" and mean.may_differ(equivalence_margin(step)):
        return "open", (
            f"the usual step takes as long, but {mean.told}, by too few long steps to rule out chance"
        )
    return judged, reason


def _verdict(judged: Judgement, against: Sequence[str], state: Comparability) -> Verdict:
    if state.obstacles:
        return "INCOMPARABLE"
    return "MIXED" if against else _VERDICTS.get(judged, "INCONCLUSIVE")


def _table(
    contrasts: Mapping[str, Contrast],
    judged: Judgement,
    reason: str,
    phases: Sequence[PhaseBlame],
) -> tuple[MetricComparison, ...]:
    """Write every metric, largest change first; accounts are judged as the phases are, with Holm."""
    blamed = {one.name: one for one in phases if one.place == "step"}
    rows = []
    for name, of in contrasts.items():
        if name == "step_time":
            rows.append(tell(of, judged, reason))
        elif name in blamed:
            rows.append(tell(of, blamed[name].judged, blamed[name].reason))
        elif judged == "open" or of.mean is None:
            rows.append(tell(of, "unknown" if of.mean is None else "open", of.reason or reason))
        else:
            rows.append(tell(of, *judge_ratio(of)))
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ms or 0.0), row.name)))


def _too_short(runs: Sequence[ComparedRun], noise: RunNoise) -> str:
    """Say that one run a side has too few independent steps; several runs are their own measure."""
    if noise.basis == "runs":
        return ""
    needed = limit("steps_worth_minimum")
    known = {run.label: run.metrics["step_time"].n_effective or 0.0 for run in runs}
    name, fewest = min(known.items(), key=lambda item: item[1])
    if fewest >= needed:
        return ""
    return f"{name} is worth {fewest:.0f} independent steps, an interval needs {needed:.0f}"


def _outliers(step: Contrast, long: LongSteps | None) -> tuple[str, ...]:
    """Warn where the mean changes and the usual step does not, or the other way round."""
    if step.log is None or long is None:
        return ()
    return (
        f"The mean step changes by {signed_percent(long.estimate.value)}, the usual step by "
        f"{signed_percent(step.log.value)}: long steps are not equally many on both sides.",
    )


def _names(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for run in (*a, *b) for name in run.metrics))


def _finite_runs(runs: Sequence[ComparedRun]) -> tuple[ComparedRun, ...]:
    return tuple(
        replace(run, metrics={name: finite(side) for name, side in run.metrics.items()})
        for run in runs
    )
