"""Which ranks keep the others waiting: the order in which the tests are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.accounts import GROUPS
from traintrace_analysis.ranks.blame import Straggler, Suspect, blame, intermittent
from traintrace_analysis.ranks.causes import Cause, find_cause_of_rounds
from traintrace_analysis.ranks.load import Load, explain_by_amount
from traintrace_analysis.ranks.looks import Look, find_slow, nodes_of, take_look
from traintrace_analysis.ranks.onset import Unripe, find_ended, find_onsets
from traintrace_analysis.ranks.own_work import OwnWork, measure_own_work
from traintrace_analysis.ranks.rotation import Rotation, find_late_rounds
from traintrace_analysis.step_window import Floats, Ints, StepWindow
from traintrace_analysis.thresholds import limit

# How the looks share the rate of false alarms: at all own work, at where a rank became slow late; the
# other looks have the rest.
_FIRST_LOOK: Final = 0.7
_ONSETS: Final = 0.15


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The ranks of one window against each other.

    Attributes:
        own: Own work per rank and round that the judgement rests on, in ns.
        path: The same as a critical path needs it: with the spread that hidden work must have.
        enough: False if the steps are worth too few independent ones to compare ranks.
        load: Amounts of data that explain how own work differs; taken out before ranks are blamed.
        rotation: What late rounds are left when the stragglers' usual pace is taken out.
        taking_turns: What late rounds are late with, if no few ranks are to blame; else None.
        unripe: Rows that were slow in a part of the window that is too little to blame them for.
        steps: Ids of the rounds' steps.
    """

    work: OwnWork
    own: Floats
    path: Floats
    enough: bool
    stragglers: tuple[Straggler, ...]
    load: Load | None
    rotation: Rotation
    taking_turns: Cause | None
    unripe: tuple[Unripe, ...]
    steps: Ints

    def ranks_of(self, rows: Ints) -> tuple[int, ...]:
        """Give the ranks of rows."""
        return tuple(self.work.ranks[row] for row in rows)

    def step_of(self, since: int | None) -> int | None:
        """Give the step of a round since which something happens; None if it always did."""
        return int(self.steps[since]) if since else None

    def billed_ms(self, rank: int, account: str) -> float:
        """Give what the stragglers' findings name of a rank's time in `account`, in ms per step.

        Findings about a single rank leave it out, so that no cause is billed twice. 0 for a rank
        that is not blamed, or is for another account. Where no account is named, the excess in each
        of them is.
        """
        mine = [one for one in self.stragglers if rank in self.ranks_of(one.rows)]
        return float(sum(_named_ms(one, account) for one in mine))

    def passing_ns(self, rank: int) -> Floats:
        """Give what the findings about late rounds and uneven batches name of a rank's own time, by round."""
        passing = np.zeros(self.work.rounds)
        if rank not in self.work.ranks:
            return passing
        row = self.work.ranks.index(rank)
        if self.rotation.rotates:
            passing += np.where(self.rotation.last == row, self.rotation.lost, 0.0)
        if self.load is not None and self.load.share >= limit("straggler_share_warning"):
            passing += np.maximum(self.load.excess[row], 0.0)
        return passing

    def lasting_ns(self, rank: int) -> Floats:
        """Give what the stragglers' findings name of a rank's own time, by round; 0 if it is not blamed."""
        lasting = np.zeros(self.work.rounds)
        blamed = [int(row) for one in self.stragglers for row in one.rows]
        healthy = np.setdiff1d(np.arange(len(self.own)), blamed)
        for one in self.stragglers:
            if rank not in self.ranks_of(one.rows):
                continue
            row = self.work.ranks.index(rank)
            if one.late_share is not None:
                lasting += one.removed[one.rows.tolist().index(row)]
            elif len(healthy):
                excess = np.maximum(self.own[row] - np.median(self.own[healthy], axis=0), 0.0)
                lasting[one.since :] += excess[one.since :]
        return lasting

    def departures_ns(self) -> Floats:
        """Give each row's mean own work less the median over the rows."""
        means = self.own.mean(axis=1)
        apart: Floats = means - np.median(means)
        return apart


def _named_ms(one: Straggler, account: str) -> float:
    """Give what one straggler's finding names of an account, in ms per step; in all of them its excess."""
    excess = one.cause.excess_ms
    blamed = one.cause.account
    named = (
        tuple(excess) if blamed is None else GROUPS["compute"] if blamed == "compute" else (blamed,)
    )
    if account not in named:
        return 0.0
    whole = one.part * sum(max(0.0, excess.get(name, 0.0)) for name in named)
    part = min(1.0, one.excess_ns / 1e6 / whole) if whole > 0.0 else 0.0
    return part * one.part * max(0.0, excess.get(account, 0.0))


def compare_ranks(window: StepWindow, pauses: Floats | None = None) -> Comparison | None:
    """Compare the ranks of a window; None if fewer than two can be compared.

    The first look is at all own work; where waiting may hide in accounts that hold work as well,
    others are at the own work with the least of those. Each is at ranks and at nodes. All looks
    together make one false alarm in a hundred reports.

    Args:
        window: The steps.
        pauses: Ranks by steady steps in ns: what findings about collections and compilations name.
    """
    work = measure_own_work(window, pauses)
    if work is None:
        return None
    load = explain_by_amount(window, work)
    even = work.own if load is None else np.maximum(work.own - load.excess, 1.0)
    looks = [take_look(even, work, doubtful) for doubtful in (frozenset[str](), *work.doubtful)]
    suspects, unripe = _suspects(looks, work)
    stragglers = blame(suspects, work)
    named = frozenset(int(row) for one in stragglers for row in one.rows)
    used = [one.doubtful for one in suspects if one.doubtful]
    judged = next((look for look in looks if look.doubtful in used), looks[0])
    rotation, late, seen = _late_rounds([judged, *looks], suspects, named, work)
    judged = judged if suspects else seen
    path = (
        _with_spread(even, work.hidden(judged.doubtful), sorted(named)) if judged.doubtful else even
    )
    return Comparison(
        work=work,
        own=judged.own,
        path=path,
        enough=any(look.test.enough for look in looks),
        stragglers=(*stragglers, *late),
        load=load,
        rotation=rotation,
        taking_turns=(
            find_cause_of_rounds(work, rotation.last, rotation.late, seen.doubtful)
            if rotation.rotates
            else None
        ),
        unripe=tuple(one for one in unripe if one.row not in {*named, *rotation.carriers.rows}),
        steps=window.steps[window.warmup_steps :],
    )


def _suspects(looks: Sequence[Look], work: OwnWork) -> tuple[list[Suspect], list[Unripe]]:
    """Test ranks and nodes in every look; give who is slow, and who was for too short a time."""
    alpha = limit("rank_false_alarm")
    others = len(looks) * (2 if nodes_of(work) else 1) - 1
    spare = alpha * (1.0 - _FIRST_LOOK - _ONSETS) / max(1, others)
    suspects: list[Suspect] = []
    for look in looks:
        first = spare if look.doubtful else _FIRST_LOOK * alpha
        suspects += find_slow(look, work, suspects, (first, spare))
    unripe: list[Unripe] = []
    for look in looks:
        late, small = find_onsets(look, work, suspects, _ONSETS * alpha / len(looks))
        suspects += late
        unripe += [*small, *find_ended(look, work, suspects, spare)]
    known = {int(row) for one in suspects for row in one.rows}
    first_of = {one.row: one for one in reversed(unripe) if one.row not in known}
    return suspects, list(first_of.values())


def _late_rounds(
    looks: Sequence[Look], suspects: Sequence[Suspect], named: frozenset[int], work: OwnWork
) -> tuple[Rotation, tuple[Straggler, ...], Look]:
    """Find late rounds in the first look that shows who is late, or that ranks take turns."""
    seen: list[tuple[Rotation, Look]] = []
    for look in looks:
        own = _without_onsets(look, suspects)
        rotation = find_late_rounds(own, work.step, look.test.independent, look.waits)
        late = intermittent(rotation, work, named, look.doubtful)
        if late or rotation.rotates:
            return rotation, late, look
        seen.append((rotation, look))
    rotation, look = seen[0]
    return rotation, (), look


def _without_onsets(look: Look, suspects: Sequence[Suspect]) -> Floats:
    """Give own work in which who became slow late is as it was before."""
    began = [one for one in suspects if one.since]
    if not began:
        return look.own
    own: Floats = look.own.copy()
    for one in began:
        rows, since = one.rows, one.since
        others = np.delete(look.own, rows, axis=0)
        apart = np.log(np.maximum(own[rows], 1.0)) - np.log(
            np.maximum(np.median(others, axis=0), 1.0)
        )
        rise = np.median(apart[:, since:], axis=1) - np.median(apart[:, :since], axis=1)
        own[rows, since:] *= np.exp(-np.maximum(rise, 0.0))[:, None]
    return own


def _with_spread(even: Floats, hidden: Floats, blamed: list[int]) -> Floats:
    """Give own work in which each rank that waited has the hidden work of another round.

    What it did itself where it waited cannot be seen, but it was not the same on all of them: with
    one value for all, the slowest would come out too fast.
    """
    least = hidden.min(axis=0)
    rows, rounds = even.shape
    work = np.stack(
        [least if row in blamed else np.roll(least, row * rounds // rows) for row in range(rows)]
    )
    path: Floats = even - hidden + work
    return path
