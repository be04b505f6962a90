"""From slow rows to what is told about them: cause, cost, and how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traintrace_analysis.ranks.causes import Cause, find_cause
from traintrace_analysis.ranks.departures import Departures
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.ranks.rotation import Rotation
from traintrace_analysis.step_window import Floats, Ints, Marks
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
        since: Round since which it happens, if it did not before; else 0.
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
    since: int = 0

    @property
    def part(self) -> float:
        """Share of the rounds that it concerns."""
        if self.late_share is not None:
            return self.late_share
        return 1.0 - self.since / int(self.removed.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """Rows that a test found slow together, with the test and the row of it that says how slow.

    Attributes:
        own: Own work that was tested, ranks by rounds. doubtful: accounts that it leaves out.
        level_ns: Usual own work per step of what was tested.
        since: Round at which what was tested begins.
    """

    rows: Ints
    node: int | None
    own: Floats
    doubtful: frozenset[str]
    test: Departures
    row: int
    level_ns: float
    since: int = 0

    def share(self, work: OwnWork) -> float:
        """Give the excess as a share of the usual step, over all rounds."""
        log = self.test.log[self.row : self.row + 1]
        share = float(shares_of_step(np.array([self.level_ns]), log, work)[0])
        return share * (1.0 - self.since / work.rounds)

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
    healthy = _healthy(suspects, work)
    if not len(healthy):  # not all can be slower than the others: the clearest suspect stands
        suspects = [max(suspects, key=lambda one: one.share(work))]
        healthy = _healthy(suspects, work)
    groups: dict[object, list[Suspect]] = {}
    for number, one in enumerate(suspects):
        rounds = _rounds_since(one.since, work)
        cause = find_cause(work, one.rows, healthy, doubtful=one.doubtful, rounds=rounds)
        alone = one.node is not None or one.since > 0
        key = number if alone else (cause.kind, cause.account, one.doubtful)
        groups.setdefault(key, []).append(one)
    return _bill([_straggler(group, healthy, work) for group in groups.values()])


def _healthy(suspects: Sequence[Suspect], work: OwnWork) -> Ints:
    blamed = np.concatenate([one.rows for one in suspects])
    return np.setdiff1d(np.arange(len(work.ranks)), blamed)


def intermittent(
    rotation: Rotation, work: OwnWork, blamed: frozenset[int], doubtful: frozenset[str]
) -> tuple[Straggler, ...]:
    """Give the ranks to which most late rounds are due, though most of their rounds are as usual.

    Args:
        rotation: The late rounds.
        work: The ranks compared.
        blamed: Rows that are slow all the time.
        doubtful: Accounts that may hold waiting, where the others wait in them.
    """
    carriers = np.array(
        [row for row in rotation.carriers.rows if row not in blamed], dtype=np.int64
    )
    mine = np.isin(rotation.last, carriers)
    whole = float(rotation.lost[mine].sum() / work.step.sum())
    if not rotation.carriers.habit or whole < limit("straggler_share_warning"):
        return ()
    others = np.setdiff1d(np.arange(len(work.ranks)), [*carriers, *blamed])
    groups: dict[object, list[int]] = {}
    for row in carriers:
        rounds = rotation.excess[row] > 0.0
        cause = find_cause(work, np.array([row]), others, doubtful=doubtful, rounds=rounds)
        groups.setdefault((cause.kind, cause.account), []).append(int(row))
    found = []
    for members in groups.values():
        rows = np.array(members)
        late = (rotation.excess[rows] > 0.0).any(axis=0)
        lost = np.where(np.isin(rotation.last, rows), rotation.lost, 0.0)
        found.append(
            Straggler(
                rows=rows,
                node=None,
                cause=find_cause(work, rows, others, doubtful=doubtful, rounds=late),
                excess_ns=float(lost.mean()),
                share=float(lost.sum() / work.step.sum()),
                billed_ns=float(lost.mean()),
                confidence=limit("carrier_confidence"),
                critical=0.0,
                hidden=bool(doubtful),
                late_share=float(late.mean()),
                removed=rotation.excess[rows],
            )
        )
    return tuple(sorted(found, key=lambda one: -one.excess_ns))


def _rounds_since(since: int, work: OwnWork) -> Marks:
    rounds: Marks = np.arange(work.rounds) >= since
    return rounds


def _straggler(group: Sequence[Suspect], healthy: Ints, work: OwnWork) -> Straggler:
    rows = np.sort(np.concatenate([one.rows for one in group]))
    own, doubtful, since = group[0].own, group[0].doubtful, group[0].since
    rounds = _rounds_since(since, work)
    usual = np.median(own[healthy], axis=0)
    means = np.where(rounds, own[rows] - usual, 0.0).mean(axis=1)
    critical = limit("straggler_share_critical")
    return Straggler(
        rows=rows,
        node=group[0].node,
        cause=find_cause(work, rows, healthy, doubtful=doubtful, rounds=rounds),
        excess_ns=max(0.0, float(means.max())),
        share=max(one.share(work) for one in group),
        billed_ns=0.0,
        confidence=max(
            one.chance_at_least(limit("straggler_share_warning"), work) for one in group
        ),
        critical=max(one.chance_at_least(critical, work) for one in group),
        hidden=bool(doubtful),
        late_share=None,
        removed=np.where(rounds, own[rows] - _repaired(own, rows, healthy), 0.0),
        since=since,
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
