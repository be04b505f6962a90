"""What several faults are made of."""

import math

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft, Sync
from benchmarks.corpus.truth import CLEARLY
from traintrace_analysis.step_window import Floats


def clearly(
    chance: np.random.Generator, limit: float, *, most: float = 5.0, cap: float = 0.7
) -> float:
    """Draw the size of a fault: from `CLEARLY` to `most` times its limit, more of the smaller ones."""
    drawn = math.exp(chance.uniform(math.log(CLEARLY * 1.02), math.log(most)))
    return min(cap, limit * drawn)


def draft_for_step_fault(
    chance: np.random.Generator, *clocks: str, sync: Sync | None = None
) -> Draft:
    """Draft a healthy run whose steps are long enough for a lost share of them to matter.

    With `sync`, runs of several ranks are on the host clock and wait for gradients in that way.
    """
    clock = str(chance.choice(clocks))
    alone = (1,) if sync is not None and clock != "host" else None
    draft = draft_clean(
        chance, Wanted(clock=clock, ranks=alone, step_ms=(20.0, 400.0), rank_cv=0.03)
    )
    if sync is not None and draft.sync != "none":
        draft.sync = sync
    return draft


def draft_for_wall_fault(chance: np.random.Generator, *clocks: str) -> Draft:
    """Draft a healthy run that lasts long enough for a lost share of it to matter."""
    return draft_clean(
        chance, Wanted(clock=str(chance.choice(clocks)), step_ms=(5.0, 400.0), wall_s=16.0)
    )


def raise_to_share(draft: Draft, account: str, share: float, course: Floats) -> None:
    """Let an account take `share` of the time of all steps, spread over the steps as `course` is.

    Every rank has the same course with a little of its own.
    """
    own = draft.chance.gamma(100.0, 0.01, size=draft.shape)
    shape = course * own
    old = draft.work_ms.get(account, np.zeros(draft.shape))
    others = draft.step_work_ms() + draft.waiting_ms() - old
    wanted = share / (1.0 - share) * float(np.median(others.sum(axis=1)))
    added = shape / float(np.median(shape.sum(axis=1))) * wanted
    was = float(np.median(old.sum(axis=1)))
    draft.work_ms[account] = old * (0.2 if was else 1.0) + added
    if account in draft.device_ms:
        draft.device_ms[account] = draft.device_ms[account] * 0.2 + added


def draw_course(chance: np.random.Generator, steps: int) -> Floats:
    """Draw how a cause is spread over steps: evenly, with each k-th step, or in bursts by chance."""
    kind = str(chance.choice(["even", "noisy", "every_few", "bursts"]))
    if kind == "even":
        return chance.gamma(25.0, 0.04, size=steps)
    if kind == "noisy":
        return chance.gamma(1.5, 1.0 / 1.5, size=steps)
    if kind == "every_few":
        period = int(chance.choice([2, 4, 8]))
        turn = (np.arange(steps) + int(chance.integers(period))) % period == 0
        return np.where(turn, 1.0, 0.02) * chance.gamma(25.0, 0.04, size=steps)
    # About one step in six waits, so that even short runs hold several.
    burst = chance.random(steps) < 1.0 / 6.0
    burst[:: max(6, steps // 10)] = True
    return np.where(burst, 1.0, 0.03) * chance.gamma(9.0, 1.0 / 9.0, size=steps)
