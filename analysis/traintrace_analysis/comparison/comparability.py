"""May two sides be compared at all, and what besides the code could explain a difference?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from traintrace_analysis.comparison.model import ComparedRun, NoiseModel, Value
from traintrace_analysis.wording import listed

_WORK_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Comparability:
    """What stands in the way of a comparison.

    Attributes:
        clocks_differ: No number of one side may be held against the other.
        obstacles: Why no verdict can be given; empty if one can.
        unfinished: Runs that did not complete: they can be looked at, and pass no guard.
        caveats: What limits a verdict, or could explain a change; `unfinished` included.
    """

    clocks_differ: bool
    obstacles: tuple[str, ...]
    unfinished: tuple[str, ...]
    caveats: tuple[str, ...]


def examine_sides(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> Comparability:
    """Examine two sides that are to be told apart: a run on both of them would always pass."""
    state = examine(a, b)
    if not {run.id for run in a} & {run.id for run in b}:
        return state
    itself = "a run is on both sides, and cannot differ from itself"
    return replace(state, obstacles=(itself, *state.obstacles))


def examine(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> Comparability:
    """Look for what differs between the sides, and within them."""
    runs = (*a, *b)
    obstacles: list[str] = []
    clocks = len({run.clock for run in runs}) > 1
    if clocks:
        obstacles.append(f"the clocks differ: {_clocks(a)} in A, {_clocks(b)} in B")
    for run in runs:
        step = run.metrics.get("step_time")
        if not run.steps:
            obstacles.append(f"{run.label} has no step after its warm-up")
        elif not has_step_time(run):
            why = step.reason if step is not None and step.reason else "not measured"
            obstacles.append(f"{run.label} has no step time ({why})")
    obstacles += _work(a, b)
    obstacles += _differing(a, b, "topology") + _differing(a, b, "hardware")
    obstacles += [
        f"a run is given twice in {label}, and cannot differ from itself"
        for label, side in (("A", a), ("B", b))
        if len({run.id for run in side}) < len(side)
    ]
    unfinished = [
        f"{run.label} is {run.status}, not completed." for run in runs if run.status != "completed"
    ]
    caveats = list(unfinished)
    caveats += [f"Different {text}" for text in _differing(a, b, "versions")]
    caveats += [f"Different {text}" for text in _differing(a, b, "configuration")]
    if len(a) > 1 and len(b) > 1 and not _interleaved(a, b):
        caveats.append(
            "All runs of one side were started before those of the other: a machine that drifts "
            "would look like a change. Interleave them."
        )
    return Comparability(clocks, tuple(obstacles), tuple(unfinished), tuple(caveats))


def has_step_time(run: ComparedRun) -> bool:
    """Tell whether a run has steps, and a step time above zero for them."""
    step = run.metrics.get("step_time")
    return bool(run.steps and step is not None and step.available and step.mean_ms)


def usable_noise(
    noise: NoiseModel | None, runs: Sequence[ComparedRun]
) -> tuple[NoiseModel | None, tuple[str, ...]]:
    """Give the noise model if it was measured on such runs, and what to say about it."""
    if noise is None:
        return None, ()
    if any(run.fingerprint != noise.fingerprint for run in runs):
        return None, (
            "The stored noise model was measured with other versions or another setup; it is not used.",
        )
    if noise.trending:
        return noise, (
            f"When the noise model was measured, the machine drifted by {100 * noise.trend_log:.2g} % a run.",
        )
    return noise, ()


def _work(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> list[str]:
    """Name the work of a step where it differs; a short last batch of an epoch is no difference."""
    known = [run.work_per_step for run in (*a, *b) if run.work_per_step is not None]
    if len(known) == len(a) + len(b) and max(known) > min(known) * (1.0 + _WORK_TOLERANCE):
        return [
            f"a step is not the same work: {known[0]:.4g} samples in A, {known[-1]:.4g} in B; "
            "compare samples per second"
        ]
    return []


def _differing(a: Sequence[ComparedRun], b: Sequence[ComparedRun], section: str) -> list[str]:
    """Name every fact of a section that is known for all runs and differs between any two."""
    told = []
    for name in getattr(a[0], section):
        values = [_facts(run, section).get(name) for run in (*a, *b)]
        if None not in values and len(set(values)) > 1:
            told.append(f"{name}: {values[0]} in A, {values[-1]} in B")
    return told


def _facts(run: ComparedRun, section: str) -> Mapping[str, Value]:
    facts: Mapping[str, Value] = getattr(run, section)
    return facts


def _interleaved(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> bool:
    first = [run.started_at for run in a]
    second = [run.started_at for run in b]
    return max(first) >= min(second) and max(second) >= min(first)


def _clocks(runs: Sequence[ComparedRun]) -> str:
    return listed(sorted({run.clock for run in runs}))
