"""Pairs of runs until they decide: A B, B A, A B, ... with looks after 4, 6, 9 and 12 pairs.

Each run is two numbers, its mean ln(step time), which is that of the usual step, and its mean step time:
over the steps that its guard declares, or else over all after its warm-up. What makes runs incomparable ends the guard at once, without a decision.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from traintrace_analysis.comparison.comparability import examine
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.model import ComparedRun
from traintrace_analysis.comparison.own_time import OwnRun, own_phase, own_time_fails
from traintrace_analysis.comparison.sequential import (
    LOOKS,
    Pair,
    PairsDecision,
    decide,
    interleaved,
)
from traintrace_reporting.comparing import Input, blamed_phase
from traintrace_reporting.guard_busy import own_run, waiting_for_cpu
from traintrace_reporting.guard_check import obstacles

GuardDecision = Literal["FAIL", "PASS", "INCONCLUSIVE"]
EXIT_CODES: Final[dict[str, int]] = {"PASS": 0, "INCONCLUSIVE": 3, "FAIL": 4}
SCHEMA_VERSION: Final = "0.1"


@dataclass(frozen=True, slots=True)
class PairsOutcome:
    """How the guard ended.

    Attributes:
        decision: FAIL, PASS or INCONCLUSIVE, and its numbers.
        reasons: What made the runs incomparable; empty if they could be compared.
        phase: The part of the step that lost most; None unless it failed and one is beyond chance.
        a_runs, b_runs: Names of the runs in the order of the pairs.
        notes: What else a reader should know, as sentences.
    """

    decision: PairsDecision
    reasons: tuple[str, ...]
    phase: str | None
    a_runs: tuple[str, ...]
    b_runs: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Give the documented exit code."""
        return EXIT_CODES[self.decision.decision]

    @property
    def content(self) -> dict[str, Any]:
        """Give all of it as JSON's own types."""
        numbers = asdict(self.decision)
        del numbers["next_look"]
        return {
            "schema_version": SCHEMA_VERSION,
            "guard": "pairs",
            **numbers,
            "reasons": list(self.reasons),
            "phase": self.phase,
            "runs": {"a": list(self.a_runs), "b": list(self.b_runs)},
        }


def run_pairs(
    start: Callable[[str, int], Input], most: int, say: Callable[[str], None]
) -> PairsOutcome:
    """Run pairs until a look decides, at most `most` of them.

    Args:
        start: Trains once; it is given "A" or "B" and the number of the pair, from 1.
        most: One of the looks.
        say: Is told of every run and every look, a line each.

    Raises:
        RunReadError: A summary contradicts itself.
    """
    pairs: list[Pair] = []
    runs: dict[str, list[ComparedRun]] = {"A": [], "B": []}
    owns: list[OwnRun] = []
    reference: Input | None = None
    decision = decide(())
    for number, a_first in enumerate(interleaved(most), start=1):
        for name in "AB" if a_first else "BA":
            made = start(name, number)
            reference = reference or made
            run = guarded_run(made)
            runs[name].append(run)
            owns.append(own_run(made, run))
            against = incomparable(reference, made, "A1", f"{name}{number}")
            if against:
                return _outcome(_undecided(decision, against[0]), runs, tuple(against))
            say(f"pair {number} of {most} at most: {name} takes {_typical_ms(run)} ms a step")
        pairs.append(_pair(runs["A"][-1], runs["B"][-1], a_first))
        decision = decide(pairs, most=most) if number in LOOKS else decision
        if decision.decision in ("FAIL", "PASS"):
            break
        failing = own_time_fails(owns) if number in LOOKS else None
        if failing is not None:
            return _outcome(failing, runs, (), own_phase(owns))
        if number in LOOKS and number < most:
            say(decision.headline)
    notes = waiting_for_cpu(owns) if decision.decision == "INCONCLUSIVE" else ()
    return replace(_outcome(decision, runs, ()), notes=tuple(notes))


def guarded_run(one: Input) -> ComparedRun:
    """Give what is compared of a run: the steps that its guard measures, all if it declares none."""
    return one.as_run(guarded=bool(one.summary.get("guard")))


def incomparable(reference: Input, other: Input, one: str, another: str) -> list[str]:
    """Say why the times of two runs cannot be held against each other, as sentences."""
    told: list[str] = []
    if reference.summary.get("guard") or other.summary.get("guard"):
        told = obstacles(reference.summary, other.summary, (one, another))
    first, second = guarded_run(reference), guarded_run(other)
    state = examine([first], [second])
    # Side A of the sentences is the first run, whichever side that was of.
    told += [_sentence(text, one, another) for text in state.obstacles]
    told += state.unfinished
    if _level_or_none(second) is None:
        told.append(f"{another} has no mean of ln(step time), which is what is compared.")
    return list(dict.fromkeys(told))


def _sentence(text: str, one: str, another: str) -> str:
    told = text.replace(" in A", f" in {one}").replace(" in B", f" in {another}")
    return f"{told}."


def _undecided(decision: PairsDecision, why: str) -> PairsDecision:
    """End without a decision: the smallest change that could have been seen is told even then."""
    least = decision.smallest_detectable
    seen = (
        f"less than {100.0 * least:.2g} % could not have been seen"
        if least is not None
        else "the smallest slowdown that could be seen is not known before 4 pairs"
    )
    headline = f"{why.rstrip('.')}; {seen}."
    return replace(decision, decision="INCONCLUSIVE", next_look=None, headline=headline)


def _outcome(
    decision: PairsDecision,
    runs: dict[str, list[ComparedRun]],
    reasons: tuple[str, ...],
    phase: str | None = None,
) -> PairsOutcome:
    names = {side: tuple(run.name for run in made) for side, made in runs.items()}
    if decision.decision == "FAIL":
        worst = blamed_phase(compare(runs["A"], runs["B"])) if phase is None else None
        phase = phase if worst is None else worst.name
        blamed = "No single phase stands out." if phase is None else f"Most of it is in {phase}."
        decision = replace(decision, headline=f"{decision.headline} {blamed}")
    return PairsOutcome(decision, reasons, phase, names["A"], names["B"])


def _pair(a: ComparedRun, b: ComparedRun, a_first: bool) -> Pair:
    return Pair(_level(a), _level(b), a_first, mean_log(a), mean_log(b))


def mean_log(run: ComparedRun) -> float | None:
    """Give ln of the mean step time, which holds the long steps; None without one."""
    step = run.metrics.get("step_time")
    return math.log(step.mean_ms) if step is not None and step.mean_ms else None


def _level(run: ComparedRun) -> float:
    level = _level_or_none(run)
    assert level is not None  # else the run was found incomparable
    return level


def _level_or_none(run: ComparedRun) -> float | None:
    step = run.metrics.get("step_time")
    return None if step is None else step.log_mean


def _typical_ms(run: ComparedRun) -> str:
    step = run.metrics["step_time"]
    return "?" if step.mean_ms is None else f"{step.mean_ms:.4g}"
