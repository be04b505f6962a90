"""What is true of a draft, by definition and not by the code under test.

Each kind has a size that a fault of it must reach (`docs/findings.md` says the same in words). The
severity of a kind is the true size over that limit: 1 is just a fault. A labelled fault is at least
`CLEARLY`; what else reaches 1 in the same run is true as well, whether or not somebody put it there;
between `UNCLEAR` and 1 either answer may be given; below, a finding is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.corpus.draft import Draft
from traintrace.accounts import GROUPS
from traintrace.facts import EPOCH_FIRST
from traintrace_analysis.step_window import Floats

CLEARLY: Final = 1.3
UNCLEAR: Final = 0.8

# Shares of step time, and below which loss per step [ms] and per run [s] nobody cares.
STEP_LIMIT: Final = 0.10
STEP_FLOOR_MS: Final = 2.0
RUN_FLOOR_S: Final = 60.0
# Shares of the run's wall time.
WALL_LIMITS: Final[Mapping[str, tuple[str, float]]] = {
    "EVALUATION_COST": ("evaluation", 0.10),
    "CHECKPOINT_COST": ("checkpoint", 0.05),
    "LOGGING_COST": ("logging", 0.05),
    "GAP": ("gap", 0.10),
}
WALL_FLOOR_S: Final = 0.5
EPOCH_START_LIMIT: Final = 0.05
GC_LIMIT: Final = 0.05
RECOMPILE_LIMIT: Final = 0.05
OPTIMIZER_LIMIT: Final = 0.20  # of step time
BACKWARD_LIMIT: Final = 5.0  # times the forward
JITTER_LIMIT: Final = 0.10
DRIFT_LIMIT: Final = 0.10
WARMUP_LIMIT: Final = 0.10
WARMUP_FLOOR_S: Final = 30.0
# Late are steps in which a rank stands out from the usual spread by this much of a step.
LATE: Final = 0.10
# Of step time: where so many steps are late, and where few are, as for spikes of one rank.
ROTATING_LIMIT: Final = 0.05
SELDOM_LIMIT: Final = 0.10
OFTEN: Final = 0.25
OCCASIONS: Final = 8
STRAGGLER_LIMIT: Final = 0.03


@dataclass(frozen=True, slots=True)
class Label:
    """One fault that was put into a run.

    Attributes:
        ranks: Ranks that a finding has to name, no more and no less; None where it is about all.
        same: Kinds of the family that are as good an answer, where the run does not tell more.
    """

    family: str
    kind: str
    ranks: tuple[int, ...] | None = None
    same: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Truth:
    """What may be said about a run.

    Attributes:
        faults: What was put in and has to be found.
        also: Further kinds that are true. unclear: kinds near their limit, neither right nor wrong.
    """

    faults: tuple[Label, ...]
    also: frozenset[str]
    unclear: frozenset[str]


def read_truth(draft: Draft, faults: tuple[Label, ...]) -> Truth:
    """Work out what is true of a draft in which `faults` were put."""
    sizes = severities(draft)
    return Truth(
        faults=faults,
        also=frozenset(kind for kind, size in sizes.items() if size >= 1.0) | draft.also,
        unclear=frozenset(kind for kind, size in sizes.items() if UNCLEAR <= size < 1.0)
        | draft.unclear,
    )


def severities(draft: Draft) -> dict[str, float]:
    """Give the true size of every kind over its limit, as far as time tells it."""
    step = draft.step_work_ms() + draft.waiting_ms()
    return {
        **_shares_of_step(draft, step),
        **_shares_of_wall(draft, step),
        **_course_of_steps(draft, step),
        **_ranks(draft, step),
    }


def _shares_of_step(draft: Draft, step: Floats) -> dict[str, float]:
    steady = slice(draft.warmup_steps, None)
    wait = _without_first_fetches(draft)
    parts = {"INPUT_BOUND": _share(wait, step, steady, floors=True)}
    work = draft.device_ms or draft.work_ms
    if "h2d" in work and not draft.blind:
        parts["H2D_BOUND"] = _share(work["h2d"], step, steady, floors=True)
    if draft.blind:
        return parts
    parts["OPTIMIZER_HEAVY"] = _share(
        work["optimizer"], step, steady, floors=True, limit=OPTIMIZER_LIMIT
    )
    ratio = work["backward"][:, steady].sum(axis=1) / work["forward"][:, steady].sum(axis=1)
    parts["BACKWARD_HEAVY"] = _middle(ratio) / BACKWARD_LIMIT
    if not draft.on_device:
        rest = [draft.work_ms[name] for name in GROUPS["residual"] if name in draft.work_ms]
        parts["RESIDUAL_HEAVY"] = _share(np.sum(rest, axis=0), step, steady, floors=False)
    return parts


def _share(
    cause: Floats, step: Floats, steady: slice, *, floors: bool, limit: float = STEP_LIMIT
) -> float:
    """Give the median over ranks of the share in step time, over its limit; less if it is small."""
    lost, whole = cause[:, steady].sum(axis=1), step[:, steady].sum(axis=1)
    size = _middle(lost / whole) / limit
    if not floors:
        return size
    each, in_all = _middle(lost) / step[:, steady].shape[1], _middle(lost) / 1e3
    return float(min(size, max(each / STEP_FLOOR_MS, in_all / RUN_FLOOR_S)))


def _middle(values: Floats) -> float:
    """Give the value of the rank in the middle, of two in the middle the lower one."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _without_first_fetches(draft: Draft) -> Floats:
    wait: Floats = draft.work_ms["input_wait"].copy()
    first = (draft.flags & EPOCH_FIRST) != 0
    if first.all():
        return wait
    for row in range(draft.ranks):
        usual = wait[row, ~first[row]].mean()
        wait[row, first[row]] = np.minimum(wait[row, first[row]], usual)
    return wait


def _shares_of_wall(draft: Draft, step: Floats) -> dict[str, float]:
    sides = (draft.before_ms, draft.inside_ms)
    between = sum(float(matrix[0].sum()) for side in sides for matrix in side.values())
    wall = float(step[0].sum()) + between + draft.startup_ms + draft.shutdown_ms
    spent = {
        kind: (_spent(draft, account), share) for kind, (account, share) in WALL_LIMITS.items()
    }
    first_fetches = draft.work_ms["input_wait"] - _without_first_fetches(draft)
    starts = _spent(draft, "epoch_boundary") + float(first_fetches[0].sum())
    spent["EPOCH_START_COST"] = (starts, EPOCH_START_LIMIT)
    if draft.gc_ms is not None:
        spent["GC_PAUSES"] = (
            float(draft.gc_ms[:, draft.warmup_steps :].max(axis=0).sum()),
            GC_LIMIT,
        )
    compiling = sum(
        happening.duration_ms or 0.0
        for happening in draft.happenings
        if happening.kind == "compilation"
        and happening.rank == 0
        and "recompil" in happening.detail
    )
    spent["RECOMPILES"] = (compiling, RECOMPILE_LIMIT)
    sizes = {
        kind: min(ms / wall / share, ms / 1e3 / WALL_FLOOR_S) for kind, (ms, share) in spent.items()
    }
    for kind in ("LOGGING_COST", "GAP"):
        sizes[kind] = min(sizes[kind], _pauses(draft, WALL_LIMITS[kind][0]))
    return sizes


def _pauses(draft: Draft, account: str) -> float:
    """Size up single pauses: short ones are the Python around any step, unless a minute is lost."""
    spent = _spent(draft, account)
    if not spent:
        return 0.0
    each = spent / int((draft.before_ms[account][0] > 0.0).sum())
    return max(each / STEP_FLOOR_MS, spent / 1e3 / RUN_FLOOR_S)


def _spent(draft: Draft, account: str) -> float:
    sides = (draft.before_ms, draft.inside_ms)
    return sum(float(side[account][0].sum()) for side in sides if account in side)


def _course_of_steps(draft: Draft, step: Floats) -> dict[str, float]:
    """Size up what changes from step to step, on the mean over ranks."""
    course = step.mean(axis=0)
    warm, steady = course[: draft.warmup_steps], course[draft.warmup_steps :]
    usual = float(np.median(steady))
    over = float((steady - usual)[steady > 2.0 * usual].sum())
    excess = float((warm - usual).sum()) if len(warm) else 0.0
    wall = float(course.sum())
    return {
        "JITTER": over / float(steady.sum()) / JITTER_LIMIT,
        "DRIFT": draft.trend / DRIFT_LIMIT,
        "WARMUP_COST": min(excess / wall / WARMUP_LIMIT, excess / 1e3 / WARMUP_FLOOR_S),
    }


def rotating_limit(late_share: float) -> float:
    """Give the share of step time from which late steps are a fault; it changes where they are frequent."""
    often = min(1.0, max(0.0, (late_share - 0.8 * OFTEN) / (0.4 * OFTEN)))
    return SELDOM_LIMIT + often * (ROTATING_LIMIT - SELDOM_LIMIT)


def _ranks(draft: Draft, step: Floats) -> dict[str, float]:
    """Size up what the ranks cost each other: the slowest of each step beyond the median.

    What fixed culprits cost is theirs; what the others cost each other changes from step to step,
    and counts in late steps: by chance somebody is always the slowest.
    """
    if draft.sync == "none":
        return {}
    culprits = list(draft.culprits or ())
    others = [rank for rank in range(draft.ranks) if rank not in culprits]
    whole, waits = float(step.mean(axis=0).sum()), draft.waiting_ms()
    among = waits[others]
    lost = np.median(among, axis=0) - among.min(axis=0)
    usual = max(4.0 * float(np.quantile(lost, 0.05)), LATE * float(np.median(step)))
    late = lost > usual
    share = float(lost[late].sum()) / whole / rotating_limit(float(late.mean()))
    # However rare it is on each rank: all pay for the slowest.
    sizes = {"ROTATING_STRAGGLER": share if late.sum() >= OCCASIONS else 0.0}
    if culprits and not draft.silent:
        # Who comes last waits least; a group counts by its fastest member.
        behind = float(np.median(among.sum(axis=1)) - waits[culprits].sum(axis=1).max())
        sizes["STRAGGLERS"] = behind / whole / STRAGGLER_LIMIT
    return sizes
