"""Faults inside the steps of every rank."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft
from benchmarks.corpus.faults.recipes import (
    clearly,
    draft_for_step_fault,
    draw_course,
    raise_to_share,
)
from benchmarks.corpus.truth import (
    BACKWARD_LIMIT,
    DRIFT_LIMIT,
    JITTER_LIMIT,
    OPTIMIZER_LIMIT,
    STEP_LIMIT,
    WARMUP_LIMIT,
)
from traintrace_analysis.step_window import Floats


def input_bound(chance: np.random.Generator) -> Draft:
    """Wait for batches: evenly, with every few batches, or in bursts."""
    draft = draft_for_step_fault(chance, "host", "host", "device")
    course = draw_course(chance, draft.steps)
    raise_to_share(draft, "input_wait", clearly(chance, STEP_LIMIT), course)
    return draft


def h2d_bound(chance: np.random.Generator) -> Draft:
    """Copy batches to the device for long."""
    draft = draft_for_step_fault(chance, "device")
    course = chance.gamma(25.0, 0.04, size=draft.steps)
    raise_to_share(draft, "h2d", clearly(chance, STEP_LIMIT), course)
    return draft


def residual_heavy(chance: np.random.Generator) -> Draft:
    """Spend time on something that is neither data nor compute."""
    draft = draft_for_step_fault(chance, "host")
    account = str(chance.choice(["other", "callbacks", "user", "clip", "batch_prep"]))
    course = draw_course(chance, draft.steps)
    raise_to_share(draft, account, clearly(chance, STEP_LIMIT), course)
    # Of time that comes in bursts JITTER says when and in which account, this kind only the account.
    if float(np.median(course)) < 0.5 * float(course.mean()):
        draft.same = frozenset(("JITTER",))
    return draft


def optimizer_heavy(chance: np.random.Generator) -> Draft:
    """Let the optimizer take a good part of the step."""
    draft = draft_for_step_fault(chance, "host", "device")
    work = draft.device_ms or draft.work_ms
    share = clearly(chance, OPTIMIZER_LIMIT, most=3.5)
    step = draft.step_work_ms() + draft.waiting_ms()
    rest = float((step - work["optimizer"]).sum())
    factor = 1.05 * share / (1.0 - share) * rest / float(work["optimizer"].sum())
    _scale(draft, {"optimizer": factor})
    return draft


def backward_heavy(chance: np.random.Generator) -> Draft:
    """Let the backward take many times what the forward takes."""
    # Where backward may hold waiting for other ranks, nothing can be said of it.
    draft = draft_for_step_fault(chance, "host", "device", sync="marked")
    work = draft.device_ms or draft.work_ms
    ratio = clearly(chance, BACKWARD_LIMIT, most=3.0, cap=20.0)
    now = float(np.median(work["backward"].sum(axis=1) / work["forward"].sum(axis=1)))
    _scale(draft, {"backward": ratio / now})
    return draft


def jitter(chance: np.random.Generator) -> Draft:
    """Make a few steps many times as long, in the phases by turns, on all ranks at once."""
    draft = draft_clean(
        chance,
        Wanted(clock="host", steps=150, step_ms=(10.0, 300.0), cv=(0.01, 0.10), rank_cv=0.02),
    )
    odds = chance.uniform(0.02, 0.08)
    slow = np.flatnonzero(chance.random(draft.steps) < odds)
    slow = slow[slow > draft.warmup_steps + 5]
    if len(slow) < 8:
        slow = np.sort(
            chance.choice(np.arange(draft.warmup_steps + 6, draft.steps), 8, replace=False)
        )
    step = draft.step_work_ms()
    lost = clearly(chance, JITTER_LIMIT, most=3.0, cap=0.35)
    whole = float(np.median(step.sum(axis=1)))
    # No spike is under three usual steps: alternating shapes differ by a factor of two.
    each = max(lost / (1.0 - lost) * whole / len(slow), 2.0 * float(np.median(step)))
    sizes = each * chance.gamma(16.0, 1.0 / 16.0, size=len(slow))
    for place, size in zip(slow, sizes, strict=True):
        draft.work_ms[str(chance.choice(["forward", "backward"]))][:, place] += size
    return draft


def drift(chance: np.random.Generator) -> Draft:
    """Let steps become slower: steadily, from some moment on, or in a few phases only."""
    draft = draft_clean(
        chance,
        Wanted(
            clock=str(chance.choice(["host", "device"])), steps=300, step_ms=(10.0, 300.0),
            cv=(0.01, 0.10), memory=0.5, rank_cv=0.03,
        ),
    )  # fmt: skip
    change = clearly(chance, DRIFT_LIMIT, most=6.0, cap=0.6)
    place = np.linspace(0.0, 1.0, draft.steps)
    course: Floats = place
    if chance.random() < 0.4:
        course = (place > chance.uniform(0.3, 0.7)).astype(np.float64)
    _scale(draft, dict.fromkeys(("forward", "backward"), 1.0 + 1.15 * change * course))
    draft.trend = change
    return draft


def warmup_cost(chance: np.random.Generator) -> Draft:
    """Spend a good part of a run, and more than half a minute, on its first steps."""
    draft = draft_clean(
        chance,
        Wanted(
            clock=str(chance.choice(["host", "device"])), steps=60, wall_s=340.0,
            step_ms=(200.0, 2500.0), cv=(0.01, 0.12), warmup=False,
        ),
    )  # fmt: skip
    length = int(chance.integers(1, 11))
    share = clearly(chance, WARMUP_LIMIT, most=4.0, cap=0.5)
    total = share / (1.0 - share) * draft.steps / 0.9 * 1.1
    weights = 0.7 ** np.arange(length)
    draft.warmup_steps = length
    factors = np.ones(draft.steps)
    factors[:length] += total * weights / weights.sum()
    _scale(draft, dict.fromkeys(("forward", "backward"), factors))
    return draft


def _scale(draft: Draft, factors: Mapping[str, float | Floats]) -> None:
    """Multiply accounts on both clocks; the host's wait for the device grows with them."""
    before = _device_ms(draft)
    for name, factor in factors.items():
        draft.work_ms[name] = draft.work_ms[name] * factor
        if name in draft.device_ms:
            draft.device_ms[name] = draft.device_ms[name] * factor
    if draft.on_device:
        hidden = sum(
            (
                draft.work_ms[name] * (1.0 - 1.0 / np.asarray(factor))
                for name, factor in factors.items()
            ),
            np.zeros(draft.shape),
        )
        draft.work_ms["other"] = np.maximum(
            draft.work_ms["other"] + _device_ms(draft) - before - hidden, 0.0
        )


def _device_ms(draft: Draft) -> Floats:
    if not draft.on_device:
        return np.zeros(draft.shape)
    total: Floats = np.sum(list(draft.device_ms.values()), axis=0)
    return total


FAULTS: Final[Mapping[str, Callable[[np.random.Generator], Draft]]] = {
    "INPUT_BOUND": input_bound,
    "H2D_BOUND": h2d_bound,
    "RESIDUAL_HEAVY": residual_heavy,
    "OPTIMIZER_HEAVY": optimizer_heavy,
    "BACKWARD_HEAVY": backward_heavy,
    "JITTER": jitter,
    "DRIFT": drift,
    "WARMUP_COST": warmup_cost,
}
