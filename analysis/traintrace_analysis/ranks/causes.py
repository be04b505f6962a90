"""What a slow rank spends its extra time on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.accounts import GROUPS
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit

_KINDS: Final[Mapping[str, str]] = {
    "input_wait": "INPUT_STRAGGLER",
    "h2d": "H2D_STRAGGLER",
    "forward": "COMPUTE_STRAGGLER",
    "optimizer": "COMPUTE_STRAGGLER",
    "compute": "COMPUTE_STRAGGLER",
    "backward": "BACKWARD_STRAGGLER",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Where the excess of slow ranks lies.

    Attributes:
        kind: Kind of finding; "STRAGGLER" where no phase covers enough of it.
        account: The account that covers most of it, "compute" for all three together; None if
            no account covers enough, or only one that may hold waiting as well.
        covered: Part of the excess in that account, or in the largest if none is named.
        excess_ms: Excess per step by account, over the median of the other ranks.
    """

    kind: str
    account: str | None
    covered: float
    excess_ms: Mapping[str, float]


def find_cause(
    work: OwnWork,
    rows: Ints,
    healthy: Ints,
    *,
    doubtful: frozenset[str] = frozenset(),
    rounds: Marks | None = None,
) -> Cause:
    """Find the account in which `rows` exceed the median of `healthy` most.

    Args:
        work: The ranks compared.
        rows: The slow ones.
        healthy: The ranks that they are compared with.
        doubtful: Accounts inside which the others wait; those are then no cause.
        rounds: The rounds to look at; all if None.
    """
    return _decide(
        {
            name: _excess(part if rounds is None else part[:, rounds], rows, healthy)
            for name, part in work.accounts.items()
        },
        work,
        doubtful,
    )


def find_cause_of_rounds(
    work: OwnWork, last: Ints, late: Marks, doubtful: frozenset[str] = frozenset()
) -> Cause:
    """Find the account in which, in late rounds, the last rank exceeds the median of all most.

    Args:
        work: The ranks compared.
        last: The row that was last, by round.
        late: The rounds to look at.
        doubtful: Accounts inside which the others wait.
    """
    places = np.flatnonzero(late)
    return _decide(
        {
            name: float((part[last[places], places] - np.median(part[:, places], axis=0)).mean())
            for name, part in work.accounts.items()
        },
        work,
        doubtful,
    )


def _decide(excess: Mapping[str, float], work: OwnWork, doubtful: frozenset[str]) -> Cause:
    gap = sum(ns for name, ns in excess.items() if name not in doubtful)
    if doubtful:
        # What the others wait longer is the gap that a cause has to explain.
        gap = max(gap, -sum(excess[name] for name in doubtful))
    unprovable = doubtful or _unprovable(work)
    certain = {name: ns for name, ns in excess.items() if name not in unprovable}
    parts = {name: certain[name] for name in GROUPS["compute"] if name in certain}
    compute = sum(parts.values()) if len(parts) == len(GROUPS["compute"]) else 0.0
    shown = {name: ns / 1e6 for name, ns in excess.items()}
    if not certain or gap <= 0.0:
        return Cause("STRAGGLER", None, 0.0, shown)
    largest = max(certain, key=lambda name: certain[name])
    covered = certain[largest] / gap
    enough = limit("cause_covers_sharded" if work.sharded else "cause_covers")
    clear = limit("cause_covers_sharded")
    if covered < clear <= compute / gap:
        return Cause("COMPUTE_STRAGGLER", "compute", compute / gap, shown)
    if covered < enough:
        return Cause("STRAGGLER", None, covered, shown)
    return Cause(_KINDS.get(largest, "STRAGGLER"), largest, covered, shown)


def _unprovable(work: OwnWork) -> frozenset[str]:
    """Name the accounts that are no proof of own work even where the rank as a whole is later."""
    if work.blind:
        return frozenset(work.accounts) - {"input_wait"}
    names = set() if work.marked else {"backward"}
    if work.sharded:
        names |= {"forward", "backward"}
    return frozenset(names)


def _excess(part: Floats, rows: Ints, healthy: Ints) -> float:
    means = part.mean(axis=1)
    usual = float(np.median(means[healthy])) if len(healthy) else 0.0
    return float(means[rows].mean()) - usual
