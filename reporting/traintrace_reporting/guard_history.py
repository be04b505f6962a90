"""New runs against stored runs of the baseline: which of those count, and the decision."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from traintrace.errors import RunReadError
from traintrace.runs.manifest import MANIFEST_NAME
from traintrace_analysis.comparison.history import HistoryDecision, judge_history
from traintrace_analysis.comparison.trend import run_trend
from traintrace_analysis.thresholds import limit
from traintrace_reporting.comparing import Input, read_input
from traintrace_reporting.finish import JSON_NAME
from traintrace_reporting.format import dig
from traintrace_reporting.guarding import (
    EXIT_CODES,
    SCHEMA_VERSION,
    guarded_run,
    incomparable,
    mean_log,
)


@dataclass(frozen=True, slots=True)
class HistoryOutcome:
    """The decision about new runs.

    Attributes:
        decision: FAIL, PASS or INCONCLUSIVE.
        headline: In one line.
        numbers: What it rests on; None if too few runs of the baseline are comparable.
        new, baseline: Names of the runs that were used.
        left_out: Runs of the baseline that were not, each with the reason.
    """

    decision: str
    headline: str
    numbers: HistoryDecision | None
    new: tuple[str, ...]
    baseline: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """Give the documented exit code."""
        return EXIT_CODES[self.decision]

    @property
    def content(self) -> dict[str, Any]:
        """Give all of it as JSON's own types."""
        names = [one for one in HistoryDecision.__slots__ if one not in ("decision", "headline")]
        numbers = dict.fromkeys(names) if self.numbers is None else asdict(self.numbers)
        return {
            "schema_version": SCHEMA_VERSION,
            "guard": "history",
            **numbers,
            "decision": self.decision,
            "headline": self.headline,
            "runs": {"new": list(self.new), "baseline": list(self.baseline)},
            "left_out": list(self.left_out),
        }


def read_baseline(places: Iterable[str]) -> list[Input]:
    """Read runs, and the runs in folders of runs.

    Raises:
        RunReadError: A run cannot be used, or a folder holds none; the message names it.
    """
    found: list[Input] = []
    for place in places:
        folder = Path(place)
        if not folder.is_dir() or any(
            (folder / name).exists() for name in (MANIFEST_NAME, JSON_NAME)
        ):
            found.append(read_input(place))
            continue
        inside = sorted({file.parent for name in (MANIFEST_NAME, JSON_NAME) for file in folder.glob(f"*/{name}")})  # fmt: skip
        if not inside:
            raise RunReadError(f"{place}: no run, and no folder of runs")
        found += [read_input(str(run)) for run in inside]
    return found


def judge(new: Sequence[Input], baseline: Sequence[Input]) -> HistoryOutcome:
    """Decide whether the new runs are slower than those of the baseline that are comparable.

    Args:
        new: One run or several of the same code.
        baseline: What may also hold the new runs, which are passed over.
    """
    reference = new[0]
    judged = {str(one.summary["run"]["id"]) for one in new}
    unlike = [told for one in new for told in _unlike(reference, one)]
    stored = {str(one.summary["run"]["id"]): one for one in baseline}
    used: list[Input] = []
    left_out: list[str] = []
    for one in (one for run_id, one in stored.items() if run_id not in judged):
        why = _unlike(reference, one)
        if why:
            left_out.append(f"{_name(one)}: {why[0]}")
        else:
            used.append(one)
    names = tuple(map(_name, new)), tuple(map(_name, used)), tuple(left_out)
    needed = int(limit("history_runs_minimum"))
    if unlike or len(used) < needed:
        why_not = unlike[0] if unlike else _too_few(len(used), needed, left_out)
        unknown = "the smallest slowdown that could be seen is not known"
        return HistoryOutcome("INCONCLUSIVE", f"{why_not.rstrip('.')}; {unknown}.", None, *names)
    told = judge_history(_levels(new), _levels(used), means=(_means(new), _means(used)))
    drift = _drift(used, told.ratio) if told.decision == "FAIL" else None
    if drift is not None:
        return HistoryOutcome("INCONCLUSIVE", f"{told.headline} {drift}", told, *names)
    return HistoryOutcome(told.decision, told.headline, told, *names)


def _drift(baseline: Sequence[Input], ratio: float) -> str | None:
    """Say that the baseline gets slower from run to run, if so much that a later run is as slow as that.

    Later by as many runs as the baseline has: who keeps ten runs judges the next ones by them.
    """
    ordered = sorted(baseline, key=lambda one: float(one.summary["run"]["started_at"]))
    trend = run_trend([math.exp(level) for level in _levels(ordered)])
    grown = trend.first_to_last
    if trend.state != "slower" or grown is None or ratio > (1.0 + grown) ** 2:
        return None
    return f"But the baseline itself is not at rest. {trend.told}"


def _unlike(reference: Input, other: Input) -> list[str]:
    """Say why a run is no measure for the new one, or is none itself."""
    told = incomparable(reference, other, _name(reference), _name(other))
    if _differ(reference, other, "cpu"):
        told.insert(0, f"another processor than {_name(reference)}.")
    if _differ(reference, other, "fingerprint"):
        told.append(f"other versions, setup or topology than {_name(reference)}.")
    return told


def _differ(reference: Input, other: Input, name: str) -> bool:
    place = "environment", name
    return bool(dig(reference.summary, *place) != dig(other.summary, *place))


def _too_few(used: int, needed: int, left_out: Sequence[str]) -> str:
    others = f", {len(left_out)} are not comparable" if left_out else ""
    return f"{used} comparable runs in the baseline, {needed} needed{others}"


def _levels(runs: Sequence[Input]) -> list[float]:
    levels = [guarded_run(one).metrics["step_time"].log_mean for one in runs]
    return [level for level in levels if level is not None]


def _means(runs: Sequence[Input]) -> list[float]:
    means = [mean_log(guarded_run(one)) for one in runs]
    return [mean for mean in means if mean is not None]


def _name(one: Input) -> str:
    return str(one.summary["run"]["name"])
