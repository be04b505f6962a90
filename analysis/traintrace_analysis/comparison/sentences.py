"""The comparison in words: headline, why, action, and how far to believe it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from traintrace_analysis.comparison.long_steps import LongSteps, signed_percent
from traintrace_analysis.comparison.model import (
    FindingChange,
    MetricComparison,
    PhaseBlame,
    Verdict,
)
from traintrace_analysis.comparison.run_noise import RunNoise
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, milliseconds, seconds

NOTHING_JUDGED: Final = "Nothing was judged."
_ALIKE: Final = (
    "Run both sides on the same machine with the same work for each step and the same clock."
)
_OTHER_RUNS: Final = "Give every run once, on one side."
_CHANGED: Final = ("regressed", "improved")
_MEASURE: Final = (
    "Repeat it with several runs a side, interleaved, or measure the machine's own noise first."
)


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to say; step: the row of the step time; long: where the mean changes otherwise."""

    verdict: Verdict
    step: MetricComparison
    phases: tuple[PhaseBlame, ...]
    findings: tuple[FindingChange, ...]
    against: tuple[str, ...]
    long: LongSteps | None
    noise: RunNoise
    obstacles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """As findings have them: one line, the evidence, what to do."""

    headline: str
    why: str
    action: str


def incomparable(obstacles: Sequence[str]) -> Texts:
    """Say why no verdict is given."""
    return Texts(
        headline=f"Not comparable: {obstacles[0]}.",
        why=_sentence("; ".join(obstacles)),
        action=_OTHER_RUNS if "cannot differ from itself" in obstacles[0] else _ALIKE,
    )


def texts(told: Told) -> Texts:
    """Put the result into words."""
    if told.obstacles:
        return incomparable(told.obstacles)
    return Texts(_headline(told), _why(told), _action(told))


def confidence(told: Told) -> str:
    """Say how often runs of the same code would be called changed, and what that rests on."""
    if told.obstacles or told.step.ratio is None:
        return NOTHING_JUDGED
    rate = f"{100 * limit('comparison_error'):.0f} in 100 comparisons of the same code"
    if told.noise.basis == "runs":
        return f"At most {rate} would be called a change; the runs show how much runs differ."
    model = told.noise.model
    if model is not None:
        return (
            f"At most {rate} would be called a change, as runs differ by "
            f"{_percent(model.run_sd_log)} on this machine (measured on {model.runs} runs)."
        )
    waiting = told.noise.waiting
    why = "" if waiting is None else f" (one waited for a core {100 * waiting:.0f} % of its time)"
    return (
        f"At most {rate} would be called a change if runs differ by "
        f"{_percent(told.noise.assumed)}, which is assumed{why} and was not measured here."
    )


def _headline(told: Told) -> str:
    step = told.step
    if told.verdict == "MIXED":
        return f"{_step_words(told)}, but {told.against[0]}{_beside_the_mean(told)}."
    if told.verdict == "INCONCLUSIVE":
        if step.smallest_detectable is None or _blocked(step):
            return f"Cannot tell whether B is slower: {step.reason}."
        between = [one for one in told.phases if one.place == "between" and one.judged in _CHANGED]
        more = f"; {_phase_words(between[0])}" if between else ""
        return (
            "Cannot tell whether a step of B is slower: a change of less than "
            f"{_percent(step.smallest_detectable)} could not have been seen{more}."
        )
    blamed = _culprits(told)
    tail = f", mostly in {listed([one.name for one in blamed])}" if blamed else ""
    return f"{_step_words(told)}{tail}{_beside_the_mean(told)}."


def _step_words(told: Told) -> str:
    step, long = told.step, told.long
    assert step.ratio is not None
    usual = "A step" if long is None else "The usual step"
    if step.judged == "equivalent":
        return f"{usual} of B takes as long as one of A, within {_percent(_widest(step))}"
    change = _signed(step.difference_ms)
    if long is None:
        return f"{usual} of B is {_changed_by(step.ratio)} ({change} a step)"
    mean = f"mean {change}, {signed_percent(long.estimate.value)}"
    if _usual_changed(step):
        return f"{usual} of B is {_changed_by(step.ratio)} ({mean})"
    mean_ratio = math.exp(long.estimate.value)
    return f"By long steps the mean step of B is {_changed_by(mean_ratio)} ({change})"


def _beside_the_mean(told: Told) -> str:
    """Say what the usual step does where the mean alone is judged."""
    step = told.step
    if told.long is None or step.judged not in _CHANGED or _usual_changed(step):
        return ""
    assert step.ratio is not None
    return f"; the usual step changes by {signed_percent(math.log(step.ratio))}"


def _usual_changed(step: MetricComparison) -> bool:
    """Tell whether the usual step changed as was judged, or the mean alone did."""
    assert step.ratio is not None
    assert step.ratio_low is not None
    assert step.ratio_high is not None
    beyond = step.ratio_low > 1.0 if step.judged == "regressed" else step.ratio_high < 1.0
    return beyond and abs(math.log(step.ratio)) > math.log1p(limit("change_minimum"))


def _changed_by(ratio: float) -> str:
    return f"{_percent(abs(ratio - 1.0))} {'slower' if ratio > 1.0 else 'faster'}"


def _why(told: Told) -> str:
    step = told.step
    parts = []
    if step.a.mean_ms is not None and step.b.mean_ms is not None:
        parts.append(
            f"The mean step takes {milliseconds(step.a.mean_ms)} in A and "
            f"{milliseconds(step.b.mean_ms)} in B"
        )
    if step.ratio is not None and step.ratio_low is not None and step.ratio_high is not None:
        chance = 100 * (1 - limit("comparison_error"))
        parts.append(
            f"the usual step of B takes {step.ratio:.3f} times as long ({chance:.0f} % interval "
            f"{step.ratio_low:.3f} to {step.ratio_high:.3f})"
        )
    said = ["; ".join(parts)] if parts else []
    said += [_phase_words(one) for one in told.phases if one.judged in _CHANGED][:3]
    said += [
        f"{one.name} and {one.partner} changed places ({seconds(abs(one.difference_s))}): moved, not regressed"
        for one in told.phases
        if one.judged == "moved" and one.partner is not None and (one.difference_s or 0.0) > 0.0
        and one.difference_s is not None
    ]  # fmt: skip
    said += list(told.against[1:])
    if told.verdict != "INCONCLUSIVE" and step.smallest_detectable is not None:
        said.append(f"a change of the usual step by less than {_percent(step.smallest_detectable)} could easily have been missed")  # fmt: skip
    worse = [one.kind for one in told.findings if one.turn in ("worse", "appeared") and one.after != "info"]  # fmt: skip
    if worse:
        said.append(f"findings that are new or worse in B: {listed(worse)}")
    return " ".join(_sentence(text) for text in said)


def _action(told: Told) -> str:
    if told.verdict == "INCONCLUSIVE":
        return _MEASURE
    blamed = _culprits(told)
    if told.verdict == "REGRESSION" and blamed:
        return f"Look at what changed in {listed([one.name for one in blamed])}; the differences of the set-up are among the warnings."
    if told.verdict == "REGRESSION":
        return "No single account stands out; compare the set-ups, and repeat with several runs a side to see which."
    if told.verdict == "MIXED":
        return "Decide which of the two counts for this run."
    return "Nothing to do."


def _culprits(told: Told) -> list[PhaseBlame]:
    """Give the accounts that changed as the step did: one if it makes up most of it, two otherwise."""
    if told.step.judged not in _CHANGED:
        return []
    same = [one for one in told.phases if one.place == "step" and one.judged == told.step.judged]
    alone = bool(same) and (same[0].share_of_change or 0.0) >= limit("blame_alone")
    return same[:1] if alone else same[:2]


def _phase_words(one: PhaseBlame) -> str:
    assert one.difference_s is not None
    way = "more" if one.difference_s > 0.0 else "less"
    share = f", {100 * one.share_of_change:.0f} % of the change" if one.share_of_change else ""
    place = " between steps" if one.place == "between" else ""
    return f"{one.name}{place} takes {seconds(abs(one.difference_s))} a step {way}{share}"


def _blocked(step: MetricComparison) -> bool:
    return "could not have been seen" not in step.reason


def _widest(step: MetricComparison) -> float:
    margin = math.log1p(limit("equivalence_margin"))
    if step.a.mean_ms and step.b.mean_ms:
        floor = limit("change_minimum_ms") / ((step.a.mean_ms + step.b.mean_ms) / 2.0)
        margin = max(margin, math.log1p(floor))
    return math.expm1(margin)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _signed(difference_ms: float | None) -> str:
    if difference_ms is None:
        return "mean unknown"
    return f"{'+' if difference_ms >= 0 else '-'}{milliseconds(abs(difference_ms))}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %" if share < 1.0 else f"{100.0 * share:,.0f} %"
