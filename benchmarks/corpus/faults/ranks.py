"""Faults of single ranks, or between them; all other ranks are as healthy as can be."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft, Sync
from benchmarks.corpus.faults.recipes import clearly
from benchmarks.corpus.truth import LATE, STRAGGLER_LIMIT, rotating_limit
from traintrace_analysis.step_window import Floats

_MANY: Final = (2, 3, 4, 8, 8, 16, 64)
# Where the end of own backward work is not marked, work and waiting are hard to tell apart.
_UNSEPARATED: Final = frozenset(("STRAGGLER",))


def input_straggler(chance: np.random.Generator) -> Draft:
    """Let one rank wait longer for its batches, in every step or with every few."""
    draft = _draft(chance, ("host", "host", "device"))
    course = _course(draft)
    return _slow(draft, _pick_culprits(draft), {"input_wait": 1.0}, course)


def h2d_straggler(chance: np.random.Generator) -> Draft:
    """Let one rank copy for longer, as behind a shared link."""
    draft = _draft(chance, ("device",))
    return _slow(draft, _pick_culprits(draft), {"h2d": 1.0}, _course(draft))


def compute_straggler(chance: np.random.Generator) -> Draft:
    """Let one rank, or all of a node, compute the forward or the update more slowly."""
    draft = _draft(chance, ("host", "host", "device"))
    account = str(chance.choice(["forward", "forward", "optimizer"]))
    return _slow(draft, _pick_culprits(draft, node=True), {account: 1.0}, np.ones(draft.steps))


def backward_straggler(chance: np.random.Generator) -> Draft:
    """Let one rank compute the backward more slowly, where the end of its own work is marked."""
    draft = _draft(chance, ("host",), sync="marked")
    return _slow(draft, _pick_culprits(draft), {"backward": 1.0}, np.ones(draft.steps))


def straggler(chance: np.random.Generator) -> Draft:
    """Let one rank be slower in several accounts by the same amount, or in one that has no kind."""
    draft = _draft(chance, ("host",), sync="marked")
    if chance.random() < 0.5:
        parts = {"input_wait": 0.36, "forward": 0.32, "backward": 0.32}
    else:
        parts = {str(chance.choice(["other", "callbacks", "batch_prep"])): 1.0}
    return _slow(draft, _pick_culprits(draft), parts, _course(draft))


def rotating_straggler(chance: np.random.Generator) -> Draft:
    """Let a different rank be late in each step, or in some of them: by chance or by turns.

    Of many ranks each is late seldom: one of 64 in one step of 600 if a tenth of the steps are late.
    """
    draft = _draft(chance, ("host",), sync="marked", ranks=(3, 4, 8, 8, 16, 64))
    # Of a few ranks not too many late steps, or none of them would be clearly late.
    share = chance.uniform(0.1, 0.7 if draft.ranks < 16 else 0.9)
    lost = clearly(chance, rotating_limit(share), most=6.0, cap=0.45)
    lost = max(lost, 1.5 * LATE * share)
    late = chance.random(draft.steps) < share
    sizes = np.where(late, chance.gamma(16.0, 1.0 / 16.0, size=draft.steps), 0.0)
    sizes *= 1.15 * lost / (1.0 - lost) * _whole(draft) / sizes.sum()
    account = str(chance.choice(["input_wait", "forward", "backward"]))
    late_ranks = chance.integers(draft.ranks, size=draft.steps)
    if chance.random() < 0.3:
        late_ranks = np.arange(draft.steps) % draft.ranks
    draft.work_ms[account][late_ranks, np.arange(draft.steps)] += sizes
    draft.culprits = None
    return draft


def load_imbalance(chance: np.random.Generator) -> Draft:
    """Give ranks batches of different size; what each computes follows its own."""
    draft = _draft(chance, ("host",), sync="marked", ranks=(4, 8, 8, 16))
    lost = clearly(chance, 2.0 * STRAGGLER_LIMIT, most=4.0, cap=0.3)
    weights = chance.gamma(4.0, 0.25, size=draft.shape)
    if chance.random() < 0.4:
        weights = np.tile(chance.gamma(4.0, 0.25, size=(draft.ranks, 1)), (1, draft.steps))
        weights *= chance.gamma(400.0, 1.0 / 400.0, size=draft.shape)
    excess = weights - np.median(weights, axis=0)
    scale = 1.15 * lost / (1.0 - lost) * _whole(draft) / float(excess.max(axis=0).sum())
    compute = draft.work_ms["forward"] + draft.work_ms["backward"]
    usual = float(compute.mean())
    # The part of compute that does not follow the batch is cut where the spread would not fit.
    reach = min(scale / usual, 0.8)
    factors = 1.0 + reach * (weights - 1.0)
    for name in ("forward", "backward"):
        draft.work_ms[name] = draft.work_ms[name] * factors
    draft.tokens = np.maximum(1, np.rint(4096 * factors)).astype(np.int64)
    draft.culprits = None
    draft.unclear = frozenset(
        ("COMPUTE_STRAGGLER", "BACKWARD_STRAGGLER", "STRAGGLER", "ROTATING_STRAGGLER")
    )
    return draft


def silent_rank(chance: np.random.Generator) -> Draft:
    """Lose all that one or two ranks recorded, or let a rank die while the others wait for it."""
    # A rank that is traced alone is how many people trace, so two at least are left.
    draft = _draft(chance, ("host", "device"), ranks=(4, 8, 8, 16, 64))
    count = 1 if chance.random() < 0.7 else 2
    culprits = tuple(sorted(int(r) for r in chance.choice(draft.ranks, count, replace=False)))
    draft.culprits = culprits
    if chance.random() < 0.6:
        draft.silent = culprits
    else:
        draft.lost = culprits
        draft.shutdown_ms = chance.uniform(180e3, 1800e3)
    return draft


def _draft(
    chance: np.random.Generator,
    clocks: tuple[str, ...],
    *,
    sync: Sync | None = None,
    ranks: tuple[int, ...] = _MANY,
) -> Draft:
    """Draft a healthy run of several ranks whose noise lets 5 % of a step be seen in 100 steps."""
    draft = draft_clean(
        chance,
        Wanted(
            clock=str(chance.choice(clocks)), ranks=ranks, steps=100, step_ms=(20.0, 400.0),
            rank_cv=0.04, cv=(0.01, 0.15), memory=0.5,
        ),
    )  # fmt: skip
    if sync is not None:
        draft.sync = sync
    return draft


def _pick_culprits(draft: Draft, *, node: bool = False) -> tuple[int, ...]:
    """Pick one rank; of eight and more sometimes two, or all of the last node."""
    chance = draft.chance
    if node and draft.ranks >= 16 and chance.random() < 0.5:
        return tuple(rank for rank in range(draft.ranks) if draft.nodes[rank] == draft.nodes[-1])
    count = 2 if draft.ranks >= 8 and chance.random() < 0.25 else 1
    return tuple(sorted(int(r) for r in chance.choice(draft.ranks, count, replace=False)))


def _course(draft: Draft) -> Floats:
    """Draw how the excess is spread over steps: in every one, or in every few."""
    chance = draft.chance
    if chance.random() < 0.7:
        return chance.gamma(25.0, 0.04, size=draft.steps)
    period = int(chance.choice([2, 4]))
    turn = (np.arange(draft.steps) % period) == 0
    return np.where(turn, float(period), 0.0) * chance.gamma(25.0, 0.04, size=draft.steps)


def _slow(
    draft: Draft, culprits: tuple[int, ...], parts: Mapping[str, float], course: Floats
) -> Draft:
    """Slow the culprits in the accounts of `parts`, so that the run loses a clear share of its steps."""
    lost = clearly(draft.chance, 1.3 * STRAGGLER_LIMIT, most=10.0, cap=0.45)
    each = 1.1 * lost / (1.0 - lost) * _whole(draft) / draft.steps
    for account, part in parts.items():
        for source in (draft.work_ms, draft.device_ms):
            if source is draft.device_ms and account not in source:
                continue
            matrix = source.setdefault(account, np.zeros(draft.shape))
            for rank in culprits:
                matrix[rank] += each * part * course
    draft.culprits = culprits
    if draft.sync != "marked":
        draft.same = _UNSEPARATED
    return draft


def _whole(draft: Draft) -> float:
    step = draft.step_work_ms() + draft.waiting_ms()
    return float(np.median(step.sum(axis=1)))


FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "INPUT_STRAGGLER": input_straggler,
    "H2D_STRAGGLER": h2d_straggler,
    "COMPUTE_STRAGGLER": compute_straggler,
    "BACKWARD_STRAGGLER": backward_straggler,
    "STRAGGLER": straggler,
    "ROTATING_STRAGGLER": rotating_straggler,
    "LOAD_IMBALANCE": load_imbalance,
    "SILENT_RANK": silent_rank,
}
