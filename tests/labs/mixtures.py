"""Runs with several causes at once, each of which can be taken out and leaves all else as it was."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.corpus.clean import Wanted, draft_clean
from benchmarks.corpus.draft import Draft, Happening
from benchmarks.corpus.runs import make_facts
from traintrace.facts import COMPILED, COMPILED_KNOWN, EPOCH_FIRST, RunFacts
from traintrace_analysis.step_window import Floats

_ACCOUNTS: Final = ("input_wait", "forward", "backward", "optimizer", "other")
Rng = np.random.Generator


@dataclass(frozen=True)
class Mixture:
    """A healthy run and the causes that are put into it.

    Attributes:
        causes: Names of `CAUSES`, each with a seed of its own.
    """

    seed: int
    ranks: int
    causes: frozenset[str]

    def without(self, cause: str) -> "Mixture":
        """Give the same run without one of its causes."""
        return replace(self, causes=self.causes - {cause})

    def make(self) -> RunFacts:
        """Make the run: the same for the same mixture."""
        draft = draft_clean(
            np.random.default_rng(self.seed),
            Wanted(
                clock="host", ranks=(self.ranks,), steps=150, most_steps=220, step_ms=(40.0, 80.0),
                rank_cv=0.02, cv=(0.01, 0.06), memory=0.3, warmup=False,
            ),
        )  # fmt: skip
        if draft.sync != "none":
            draft.sync = "marked"
        draft.before_ms, draft.inside_ms, draft.happenings = {}, {}, []
        draft.tokens = None
        draft.flags = np.full(draft.shape, COMPILED_KNOWN, dtype=np.int64)
        usual = float(np.median(draft.step_work_ms()))
        for name, put in CAUSES.items():
            if name in self.causes:
                put(draft, np.random.default_rng([*name.encode(), self.seed]), usual)
        return make_facts(draft, "mixture")


def _add(draft: Draft, account: str, ms: Floats) -> None:
    draft.work_ms[account] = draft.work_ms.get(account, np.zeros(draft.shape)) + ms


def _places(draft: Draft, chance: Rng, number: int) -> list[int]:
    drawn = chance.choice(np.arange(20, draft.steps - 2), number, replace=False)
    return sorted(int(place) for place in drawn)


def _steadily(account: str, share: float) -> Callable[[Draft, Rng, float], None]:
    def put(draft: Draft, chance: Rng, usual: float) -> None:
        _add(draft, account, share * usual * chance.gamma(25.0, 0.04, size=draft.shape))

    return put


def _bursty_input(draft: Draft, chance: Rng, usual: float) -> None:
    hit = chance.random(draft.steps) < 0.2
    _add(draft, "input_wait", np.where(hit, 2.0 * usual, 0.0)[None, :])


def _slow_steps(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(["forward", "backward", "other", "optimizer"]))
    for place in _places(draft, chance, 12):
        draft.work_ms[account][:, place] += 4.0 * usual


def _growth(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(["forward", "backward", "optimizer"]))
    _add(draft, account, 0.6 * usual * np.linspace(0.0, 1.0, draft.steps)[None, :])


def _collections(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(_ACCOUNTS))
    together = chance.random() < 0.4
    often = chance.random() < 0.3
    pauses = np.zeros(draft.shape)
    for place in range(20, draft.steps) if often else _places(draft, chance, 25):
        rows = range(draft.ranks) if together else [int(chance.integers(draft.ranks))]
        for row in rows:
            pauses[row, place] = (0.4 if often else 2.0) * usual
            draft.happenings.append(Happening(row, place + 1, "gc", "", pauses[row, place]))
    draft.gc_ms = pauses
    _add(draft, account, pauses)


def _compilations(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(["forward", "optimizer", "backward"]))
    for turn, place in enumerate(_places(draft, chance, int(chance.integers(6, 60)))):
        length = 3.0 * usual
        draft.flags[:, place] |= COMPILED
        draft.work_ms[account][:, place] += length
        for row in range(draft.ranks):
            told = f"0/{turn + 1} recompilation"
            draft.happenings.append(Happening(row, place + 1, "compilation", told, length))


def _slow_rank(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(_ACCOUNTS))
    draft.work_ms[account][int(chance.integers(draft.ranks))] += 0.5 * usual


def _late_by_turns(draft: Draft, chance: Rng, usual: float) -> None:
    account = str(chance.choice(_ACCOUNTS))
    rows = chance.integers(draft.ranks, size=draft.steps)
    draft.work_ms[account][rows, np.arange(draft.steps)] += usual


def _between(account: str, every: int, of_step: float) -> Callable[[Draft, Rng, float], None]:
    def put(draft: Draft, chance: Rng, usual: float) -> None:
        del chance
        for step in range(every, draft.steps, every):
            draft.add_between(account, step, of_step * usual)

    return put


def _epochs(draft: Draft, chance: Rng, usual: float) -> None:
    del chance
    for place in range(0, draft.steps, 25):
        draft.flags[:, place] |= EPOCH_FIRST
        draft.work_ms["input_wait"][:, place] += 4.0 * usual
        draft.add_between("epoch_boundary", place + 1, 2.0 * usual)
    draft.epochs = len(range(0, draft.steps, 25))


def _warmup(draft: Draft, chance: Rng, usual: float) -> None:
    del chance
    draft.work_ms["forward"][:, :3] += 400.0 * usual


def _few_cores(draft: Draft, chance: Rng, usual: float) -> None:
    del usual
    machine = draft.machine
    machine.interval_s, machine.run_queue_share = 0.5, float(chance.uniform(0.15, 0.6))
    machine.cpu_cores, machine.node_cpu_share = (0.9, 0.9), (0.99, 0.99)
    machine.allowed_cores, machine.cpu_count = 2.0, 2


CAUSES: Final[Mapping[str, Callable[[Draft, Rng, float], None]]] = {
    "input": _steadily("input_wait", 0.4),
    "bursty input": _bursty_input,
    "residual": _steadily("other", 0.4),
    "optimizer": _steadily("optimizer", 0.8),
    "backward": _steadily("backward", 4.0),
    "slow steps": _slow_steps,
    "growth": _growth,
    "collections": _collections,
    "compilations": _compilations,
    "slow rank": _slow_rank,
    "late by turns": _late_by_turns,
    "logging": _between("logging", 1, 0.3),
    "gap": _between("gap", 1, 0.4),
    "evaluation": _between("evaluation", 30, 10.0),
    "epochs": _epochs,
    "warm-up": _warmup,
    "few cores": _few_cores,
}
OF_RANKS: Final = frozenset(("slow rank", "late by turns"))
