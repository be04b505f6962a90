"""How often the limiting stage is right, and how far what-ifs are from what the change really does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.stages.lines import Line, draw_line
from benchmarks.stages.simulated import run
from traintrace.readings import ProcessReading
from traintrace.stagefacts import Pipeline
from traintrace_analysis.stages import StageAnalysis, analyse_stages
from traintrace_analysis.stages.model import Change

# Runs a pipeline, on paper or for real, and gives its record and the readings of its process.
Runner = Callable[[Line], tuple[Pipeline, Sequence[ProcessReading]]]

# Unchanged pipelines that differ by more points cannot tell what a change does to a point or so.
RESTLESS_POINTS = 1.5
_TRIES = 12  # in all


@dataclass(slots=True)
class Score:
    """What was counted.

    Attributes:
        right, asked: Pipelines whose limiting stage was named right, and all of them. hedged: those of `right` with
            less than 90 % confidence.
        errors: One entry a what-if: points of throughput between answer and truth.
        deviations: One entry a pipeline: how far its replay is from what was measured.
        withheld: Pipelines for which no what-if was given.
        restless: One entry each time a pipeline was run unchanged twice: points of throughput between the two.
    """

    right: int = 0
    asked: int = 0
    hedged: int = 0
    errors: list[float] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    withheld: int = 0
    restless: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Share of the pipelines whose limiting stage was named right."""
        return self.right / self.asked if self.asked else 0.0


def simulated(line: Line) -> tuple[Pipeline, Sequence[ProcessReading]]:
    """Run a pipeline on paper."""
    return run(line.plans, line.capacities), ()


def judge_limiting(score: Score, line: Line, runner: Runner) -> None:
    """Run a pipeline and see whether the stage that limits it is named."""
    found = _analysed(line, runner)
    score.asked += 1
    if found.limiting is not None and found.limiting.stage == line.limiting:
        score.right += 1
        score.hedged += found.limiting.confidence < 0.9
    _note_replay(score, found)


def judge_what_ifs(score: Score, lines: Sequence[Line], runner: Runner) -> None:
    """Ask what changes win, and make them.

    Args:
        score: Takes the errors in.
        lines: The first one is asked; all others are run as they are, changed, and as they are again, for the truth.
        runner: Runs them.
    """
    found = _analysed(lines[0], runner)
    _note_replay(score, found)
    if found.withheld:
        score.withheld += 1
        return
    changes = list(_changes(found))
    now: list[float] = []
    then: dict[tuple[Change, str], list[float]] = {
        (change, name): [] for change, name, _ in changes
    }
    for line in lines[1:]:
        before, changed, after = _truth(score, line, changes, runner)
        now.append(fmean((before, after)))
        for key, value in changed.items():
            then[key].append(value)
    for change, name, _ in changes:
        answer = found.what_if(change, name)
        true = fmean(then[change, name]) / fmean(now)
        error = 100.0 * abs((answer.speedup if answer else 1.0) - true)
        score.errors.append(error)


def _truth(
    score: Score, line: Line, changes: Sequence[tuple[Change, str, float]], runner: Runner
) -> tuple[float, dict[tuple[Change, str], float], float]:
    """Run a pipeline unchanged, with each change, and unchanged again.

    On a machine that others use the two unchanged ones may differ by more than what is to be measured. They tell of
    the machine alone, so that all of it is then run again, twelve times at most in all pipelines together.
    """
    while True:
        before = _throughput(line, runner)
        changed = {
            (change, name): _throughput(_with(line, change, name, amount), runner)
            for change, name, amount in changes
        }
        after = before if runner is simulated else _throughput(line, runner)
        score.restless.append(100.0 * abs(after / before - 1.0))
        tries = sum(one > RESTLESS_POINTS for one in score.restless)
        if score.restless[-1] <= RESTLESS_POINTS or tries > _TRIES:
            return before, changed, after


def _changes(found: StageAnalysis) -> Iterator[tuple[Change, str, float]]:
    """Give the changes that are tried: the limiting stage faster, one more worker, the fullest queue larger."""
    limiting = "" if found.limiting is None else found.limiting.stage
    for one in found.what_ifs:
        if one.change in ("faster", "worker") and one.target == limiting:
            yield one.change, one.target, one.amount
    buffers = [one for one in found.what_ifs if one.change == "buffer"]
    if buffers:
        best = max(buffers, key=lambda one: one.speedup)
        yield best.change, best.target, best.amount


def _with(line: Line, change: Change, name: str, amount: float) -> Line:
    if change == "faster":
        return line.faster(name)
    return line.one_more(name) if change == "worker" else line.holding(name, round(amount))


def _analysed(line: Line, runner: Runner) -> StageAnalysis:
    found = analyse_stages(*runner(line))
    if found is None:
        raise RuntimeError("a pipeline left no record")
    return found


def _throughput(line: Line, runner: Runner) -> float:
    found = _analysed(line, runner)
    if found.replayed is None:
        raise RuntimeError(found.withheld)
    return found.replayed.measured_per_s


def _note_replay(score: Score, found: StageAnalysis) -> None:
    if found.replayed is not None:
        score.deviations.append(abs(found.replayed.deviation))


def score_simulated(pipelines: int, items: int, what_ifs: int, items_of_what_ifs: int) -> Score:
    """Judge pipelines on paper: whose limiting stage leads by 5 %, and what-ifs of all leads from 0 to 20 %."""
    score = Score()
    for number in range(pipelines):
        judge_limiting(score, draw_line(number, items=items, lead=0.05), simulated)
    for number in range(what_ifs):
        lead = (0.0, 0.01, 0.03, 0.05, 0.2)[number % 5]
        lines = [
            draw_line(1_000 + number, items=items_of_what_ifs, lead=lead, draws=draws)
            for draws in range(3)
        ]
        judge_what_ifs(score, lines, simulated)
    return score
