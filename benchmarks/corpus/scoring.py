"""Score what the analysis says of labelled runs.

Only *named* findings count, those of severity warning or critical. With the truth of `truth.py`:

found      a labelled fault is found if the run has a named finding of its kind, or of one of the
           label's `same` kinds. Where the label has ranks, these findings together have to name all
           of them, and none may name another rank.
recall     of a family or kind: faults that are found, over faults.
right      a named finding is right if its kind is labelled (with its ranks, where the label has some)
           or is true as well. Kinds near their limit count neither way.
precision  of a family: its named findings that are right, over its named findings, in all runs: healthy
           ones and those with faults of other families count against it.
clean_ok   share of healthy runs without any named finding.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from benchmarks.corpus.cases import Case
from benchmarks.corpus.truth import Label, Truth
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding


@dataclass(frozen=True, slots=True)
class Judged:
    """What one case was, what was named, and how the two agree."""

    case: Case
    found: tuple[Label, ...]
    missed: tuple[Label, ...]
    right: tuple[Finding, ...]
    wrong: tuple[Finding, ...]
    passed_over: tuple[Finding, ...] = ()

    @property
    def named(self) -> int:
        """Number of named findings."""
        return len(self.right) + len(self.wrong) + len(self.passed_over)


def judge(case: Case, truth: Truth, findings: Iterable[Finding]) -> Judged:
    """Compare the named findings of a run with what is true of it."""
    named = [finding for finding in findings if finding.severity != "info"]
    found = tuple(label for label in truth.faults if _is_found(label, named))
    right, wrong, passed_over = [], [], []
    for finding in named:
        if any(_names(finding, label) for label in truth.faults):
            right.append(finding)
        elif finding.kind in truth.also:
            right.append(finding)
        elif finding.kind in truth.unclear:
            passed_over.append(finding)
        else:
            wrong.append(finding)
    missed = tuple(label for label in truth.faults if label not in found)
    return Judged(case, found, missed, tuple(right), tuple(wrong), tuple(passed_over))


def _is_found(label: Label, named: Iterable[Finding]) -> bool:
    agreeing = [finding for finding in named if _names(finding, label)]
    if label.ranks is None or not agreeing:
        return bool(agreeing)
    return {rank for finding in agreeing for rank in finding.ranks} == set(label.ranks)


def _names(finding: Finding, label: Label) -> bool:
    if finding.kind != label.kind and finding.kind not in label.same:
        return False
    return label.ranks is None or set(finding.ranks) <= set(label.ranks)


@dataclass(slots=True)
class Tally:
    """Counts of one family or kind."""

    runs: int = 0
    faults: int = 0
    found: int = 0
    right: int = 0
    wrong: int = 0

    @property
    def recall(self) -> float | None:
        """Faults that are found over faults; None without faults."""
        return self.found / self.faults if self.faults else None

    @property
    def precision(self) -> float | None:
        """Right findings over findings; None without findings."""
        named = self.right + self.wrong
        return self.right / named if named else None


class KindFigures(TypedDict):
    """Figures of one kind; None where there is nothing to divide by."""

    recall: float | None
    precision: float | None
    runs: int


class FamilyFigures(KindFigures):
    """Figures of one family, all its kinds together and each."""

    wrong: int
    kinds: dict[str, KindFigures]


class Figures(TypedDict):
    """What is printed as JSON."""

    precision: float | None
    recall: float | None
    clean_ok: float | None
    clean_runs: int
    families: dict[str, FamilyFigures]


@dataclass(slots=True)
class Score:
    """Counts over all cases.

    Attributes:
        wrong: Wrong findings as (case, kind that was named). missed: faults not found as case names.
    """

    families: dict[str, Tally] = field(default_factory=dict)
    kinds: dict[tuple[str, str], Tally] = field(default_factory=dict)
    clean: int = 0
    clean_ok: int = 0
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def figures(self) -> Figures:
        """Give precision, recall and the share of healthy runs that stay without a finding."""
        whole = Tally()
        for tally in self.families.values():
            whole.faults += tally.faults
            whole.found += tally.found
            whole.right += tally.right
            whole.wrong += tally.wrong
        return {
            "precision": whole.precision,
            "recall": whole.recall,
            "clean_ok": self.clean_ok / self.clean if self.clean else None,
            "clean_runs": self.clean,
            "families": {name: self._family(name, tally) for name, tally in self.families.items()},
        }

    def _family(self, name: str, tally: Tally) -> FamilyFigures:
        return {
            "precision": tally.precision,
            "recall": tally.recall,
            "runs": tally.runs,
            "wrong": tally.wrong,
            "kinds": {
                kind: {"recall": one.recall, "precision": one.precision, "runs": one.runs}
                for kind, one in self.kinds_of(name).items()
            },
        }

    def kinds_of(self, family: str) -> dict[str, Tally]:
        """Give the tallies of a family's kinds."""
        return {kind: tally for (name, kind), tally in self.kinds.items() if name == family}


def add_up(judged: Sequence[Judged]) -> Score:
    """Add up what was judged, run by run."""
    score = Score()
    for one in judged:
        if one.case.family == "clean":
            score.clean += 1
            score.clean_ok += not one.named
        for label in (*one.found, *one.missed):
            for tally in _tallies(score, label.family, label.kind):
                tally.runs += 1
                tally.faults += 1
                tally.found += label in one.found
        for finding in one.right:
            for tally in _tallies(score, finding.family, finding.kind):
                tally.right += 1
        for finding in one.wrong:
            score.wrong[one.case.kind, finding.kind] += 1
            for tally in _tallies(score, finding.family, finding.kind):
                tally.wrong += 1
        score.missed += [one.case.name for _ in one.missed]
    return score


def examine(wanted: Iterable[Case]) -> Score:
    """Make, analyse, judge and add up."""
    return add_up([examine_one(case) for case in wanted])


def examine_one(case: Case) -> Judged:
    """Make, analyse and judge one case."""
    facts, truth = case.make()
    return judge(case, truth, analyse(facts).findings)


def _tallies(score: Score, family: str, kind: str) -> tuple[Tally, Tally]:
    return (
        score.families.setdefault(family, Tally()),
        score.kinds.setdefault((family, kind), Tally()),
    )
