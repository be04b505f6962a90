"""From slow rows to what is told about them: cause, cost, and how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traintrace_analysis.ranks.causes import Cause, find_cause
from traintrace_analysis.ranks.departures import Departures
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.ranks.rotation import Rotation
from traintrace_analysis.step_window import Floats, Ints
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True, eq=False)
class Straggler:
    """Ranks that are slower than the others for one and the same cause.

    Attributes:
        rows: Of the compared ranks. node: the node that they are all of, if it is slow as a whole.
        excess_ns: What the slowest of them does more per step than the median of the others.
        share: The same as a share of step time, slow steps pulled in.
        billed_ns: The part of `excess_ns` that no other straggler is billed.
        confidence: Chance that the true share reaches the limit.
        critical: Chance that it reaches the critical limit.
        hidden: True if the others wait for them inside accounts that hold work as well, so that the
            accounts in which nobody can wait tell who it is.
        late_share: Share of the steps in which it happens, if not in nearly all of them; else None.
        removed: Rows by rounds: what a repair takes out of their own work, in ns; below 0 in a round
            in which a repaired rank would have done more.
    """

    rows: Ints
    node: int | None
    cause: Cause
    excess_ns: float
    share: float
    billed_ns: float
    confidence: float
    critical: float
    hidden: bool
    late_share: float | None
    removed: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """Rows that a test found slow together, with the test and the row of it that says how slow.

    Attributes:
        own: Own work that was tested, ranks by rounds. doubtful: accounts that it leaves out.
        level_ns: Usual own work per step of what was tested.
    """

    rows: Ints
    node: int | None
    own: Floats
    doubtful: frozenset[str]
    test: Departures
    row: int
    level_ns: float

    def share(self, work: OwnWork) -> float:
        """Give the excess as a share of the usual step."""
        log = self.test.log[self.row : self.row + 1]
        return float(shares_of_step(np.array([self.level_ns]), log, work)[0])

    def chance_at_least(self, bound: float, work: OwnWork) -> float:
        """Give the chance that the true share reaches `bound`."""
        log, share = float(self.test.log[self.row]), self.share(work)
        return self.test.chance_at_least(self.row, log * bound / share)


def shares_of_step(level_ns: Floats, log: Floats, work: OwnWork) -> Floats:
    """Give what departures `log` of work that usually takes `level_ns` are of the usual step."""
    shares: Floats = level_ns * -np.expm1(-log) / max(float(np.median(work.step)), 1.0)
    return shares


def blame(suspects: Sequence[Suspect], work: OwnWork) -> tuple[Straggler, ...]:
    """Turn suspects into stragglers, the costliest first: ranks of one cause are one straggler."""
    if not suspects:
        return ()
    blamed = np.concatenate([one.rows for one in suspects])
    healthy = np.setdiff1d(np.arange(len(work.ranks)), blamed)
    groups: dict[object, list[Suspect]] = {}
    for number, one in enumerate(suspects):
        cause = find_cause(work, one.rows, healthy, doubtful=one.doubtful)
        key = number if one.node is not None else (cause.kind, cause.account, one.doubtful)
        groups.setdefault(key, []).append(one)
    return _bill([_straggler(group, healthy, work) for group in groups.values()])


def intermittent(rotation: Rotation, own: Floats, work: OwnWork) -> Straggler | None:
    """Give the rank to which most late rounds are due, though most of its rounds are as usual."""
    row = rotation.carrier
    if row is None:
        return None
    late = rotation.late & (rotation.last == row)
    lost = np.where(late, rotation.lost, 0.0)
    share = float(lost.sum() / work.step.sum())
    if share < limit("straggler_share_warning"):
        return None
    rows = np.array([row])
    others = np.setdiff1d(np.arange(len(own)), rows)
    excess = float(lost.mean())
    return Straggler(
        rows=rows,
        node=None,
        cause=find_cause(work, rows, others, rounds=late),
        excess_ns=excess,
        share=share,
        billed_ns=excess,
        confidence=limit("carrier_confidence"),
        critical=0.0,
        hidden=False,
        late_share=float(late.mean()),
        removed=lost[None, :],
    )


def _straggler(group: Sequence[Suspect], healthy: Ints, work: OwnWork) -> Straggler:
    rows = np.sort(np.concatenate([one.rows for one in group]))
    own, doubtful = group[0].own, group[0].doubtful
    usual = float(np.median(own[healthy], axis=0).mean())
    means = own[rows].mean(axis=1)
    critical = limit("straggler_share_critical")
    return Straggler(
        rows=rows,
        node=group[0].node,
        cause=find_cause(work, rows, healthy, doubtful=doubtful),
        excess_ns=max(0.0, float(means.max()) - usual),
        share=max(one.share(work) for one in group),
        billed_ns=0.0,
        confidence=max(
            one.chance_at_least(limit("straggler_share_warning"), work) for one in group
        ),
        critical=max(one.chance_at_least(critical, work) for one in group),
        hidden=bool(doubtful),
        late_share=None,
        removed=own[rows] - _repaired(own, rows, healthy),
    )


def _repaired(own: Floats, rows: Ints, healthy: Ints) -> Floats:
    """Give the own work that `rows` would have if they were like the others, noise and all.

    What one of the others did half a window away, against the median of its step: a rank that is
    repaired is sometimes last, too. Nothing is scaled by what the slow ranks themselves did, so the
    steps one by one show the whole error of the gain.
    """
    usual = np.median(own[healthy], axis=0)
    level = np.maximum(usual if len(healthy) > 1 else np.ones_like(usual), 1.0)
    donors = own[healthy[np.arange(len(rows)) % len(healthy)]]
    repaired: Floats = level * np.roll(donors / level, own.shape[1] // 2, axis=1)
    return repaired


def _bill(stragglers: Sequence[Straggler]) -> tuple[Straggler, ...]:
    """Divide what the slowest adds among all: what several have in common is billed in equal parts."""
    billed: list[Straggler] = []
    level = total = 0.0
    for place, one in enumerate(sorted(stragglers, key=lambda one: one.excess_ns)):
        total += (one.excess_ns - level) / (len(stragglers) - place)
        level = one.excess_ns
        billed.append(replace(one, billed_ns=total))
    return tuple(reversed(billed))
