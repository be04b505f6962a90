"""Faults between the steps, and pauses that fall into them."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.corpus.clean_extras import spend_between
from benchmarks.corpus.draft import Draft, Happening
from benchmarks.corpus.faults.recipes import clearly, draft_for_wall_fault
from benchmarks.corpus.truth import (
    CLEARLY,
    EPOCH_START_LIMIT,
    GC_LIMIT,
    RECOMPILE_LIMIT,
    STEP_FLOOR_MS,
    WALL_LIMITS,
)
from traintrace.facts import COMPILED, COMPILED_KNOWN, EPOCH_FIRST
from traintrace_analysis.step_window import Floats


def epoch_start_cost(chance: np.random.Generator) -> Draft:
    """Make iterators and workers for long, and wait for the first batch of each epoch."""
    draft = draft_for_wall_fault(chance, "host", "device")
    wanted = _lost_ms(draft, clearly(chance, EPOCH_START_LIMIT, cap=0.4))
    draft.epochs = int(chance.integers(2, max(3, min(12, draft.steps // 10))))
    making = chance.uniform(0.2, 0.9)
    for first in np.linspace(0, draft.steps, draft.epochs, endpoint=False).astype(int):
        draft.flags[:, first] |= EPOCH_FIRST
        each = wanted / draft.epochs * chance.uniform(0.95, 1.1)
        draft.add_between("epoch_boundary", int(first) + 1, making * each)
        draft.work_ms["input_wait"][:, first] += (1.0 - making) * each
    return draft


def evaluation_cost(chance: np.random.Generator) -> Draft:
    """Evaluate for long or often."""
    return _spend(chance, "EVALUATION_COST", "host", "device", "blind")


def checkpoint_cost(chance: np.random.Generator) -> Draft:
    """Write checkpoints for long or often."""
    return _spend(chance, "CHECKPOINT_COST", "host", "device", "blind")


def logging_cost(chance: np.random.Generator) -> Draft:
    """Send logged values on the training thread, where no device can make it wait."""
    return _spend(chance, "LOGGING_COST", "host")


def gap(chance: np.random.Generator) -> Draft:
    """Do something unmarked between steps, with each or at times, where no device makes it wait."""
    draft = draft_for_wall_fault(chance, "host")
    wanted = _lost_ms(draft, clearly(chance, WALL_LIMITS["GAP"][1]))
    draft.before_ms.pop("gap", None)
    if chance.random() < 0.5 or wanted / draft.steps < CLEARLY * STEP_FLOOR_MS:
        spend_between(draft, "gap", wanted, int(chance.integers(2, 12)))
        return draft
    drawn = chance.gamma(9.0, 1.0 / 9.0, size=draft.steps)
    drawn[0] = 0.0
    draft.before_ms["gap"] = np.tile(drawn / drawn.sum() * wanted, (draft.ranks, 1))
    return draft


def gc_pauses(chance: np.random.Generator) -> Draft:
    """Collect garbage for long: on all ranks at once, or on each at its own time."""
    draft = draft_for_wall_fault(chance, "host")
    wanted = _lost_ms(draft, clearly(chance, GC_LIMIT, cap=0.4))
    first = draft.warmup_steps + 2
    most = max(4, min(60, (draft.steps - first) // 6))
    number = int(chance.integers(4, most + 1))
    together = draft.ranks == 1 or chance.random() < 0.5
    draft.gc_ms = draft.step_work_ms() * 0.0005
    for place in np.sort(chance.choice(np.arange(first, draft.steps), number, replace=False)):
        pause = wanted / number * chance.uniform(0.95, 1.15)
        account = str(chance.choice(["forward", "backward"]))
        for rank in range(draft.ranks) if together else [int(chance.integers(draft.ranks))]:
            draft.gc_ms[rank, place] += pause
            draft.work_ms[account][rank, place] += pause
            draft.happenings.append(Happening(rank, int(place) + 1, "gc", "generation 2", pause))
    if not together:
        # A few pauses may by chance fall on one rank more often than on the others.
        draft.unclear = frozenset(("COMPUTE_STRAGGLER", "BACKWARD_STRAGGLER", "STRAGGLER"))
    return draft


def recompiles(chance: np.random.Generator) -> Draft:
    """Compile again and again, all over the run, as changing shapes make it do."""
    draft = draft_for_wall_fault(chance, "host", "device")
    wanted = _lost_ms(draft, clearly(chance, RECOMPILE_LIMIT, cap=0.4))
    first = draft.warmup_steps + 12
    if draft.steps - first < 10:
        first = draft.steps // 2
    number = int(chance.integers(4, min(40, (draft.steps - first) // 2) + 1))
    places = np.sort(chance.choice(np.arange(first, draft.steps), number, replace=False))
    draft.flags |= COMPILED_KNOWN
    for turn, place in enumerate(places):
        length = wanted / number * chance.uniform(0.9, 1.15)
        draft.flags[:, place] |= COMPILED
        draft.work_ms["forward"][:, place] += length
        for rank in range(draft.ranks):
            detail = f"0/{turn + 1} recompilation: tensor 'x' size mismatch at index 0"
            draft.happenings.append(Happening(rank, int(place) + 1, "compilation", detail, length))
    return draft


def _spend(chance: np.random.Generator, kind: str, *clocks: str) -> Draft:
    account, limit = WALL_LIMITS[kind]
    draft = draft_for_wall_fault(chance, *clocks)
    draft.before_ms.pop(account, None)
    draft.inside_ms.pop(account, None)
    draft.happenings = [one for one in draft.happenings if one.kind != account]
    spend_between(
        draft, account, _lost_ms(draft, clearly(chance, limit)), int(chance.integers(1, 12))
    )
    return draft


def _lost_ms(draft: Draft, share: float) -> float:
    """Give how long a cause must last to take `share` of the run's wall time."""
    step: Floats = draft.step_work_ms() + draft.waiting_ms()
    sides = (draft.before_ms, draft.inside_ms)
    between = sum(float(matrix[0].sum()) for side in sides for matrix in side.values())
    rest = float(step[0].sum()) + between
    return 1.06 * share / (1.0 - share) * (rest + draft.startup_ms + draft.shutdown_ms)


FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "EPOCH_START_COST": epoch_start_cost,
    "EVALUATION_COST": evaluation_cost,
    "CHECKPOINT_COST": checkpoint_cost,
    "LOGGING_COST": logging_cost,
    "GC_PAUSES": gc_pauses,
    "RECOMPILES": recompiles,
    "GAP": gap,
}
