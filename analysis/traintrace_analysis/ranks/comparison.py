"""Which ranks keep the others waiting: the order in which the tests are made."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.accounts import GROUPS
from traintrace_analysis.ranks.blame import (
    Straggler,
    Suspect,
    blame,
    intermittent,
    shares_of_step,
)
from traintrace_analysis.ranks.departures import Departures, Marks, measure_departures
from traintrace_analysis.ranks.load import Load, explain_by_amount
from traintrace_analysis.ranks.own_work import OwnWork, measure_own_work
from traintrace_analysis.ranks.rotation import Rotation, find_late_rounds
from traintrace_analysis.step_window import Floats, Ints, StepWindow
from traintrace_analysis.thresholds import limit

_FIRST_LOOK: Final = 0.8  # of the rate of false alarms; the other looks share the rest


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The ranks of one window against each other.

    Attributes:
        own: Own work per rank and round that the judgement rests on, in ns.
        path: The same as a critical path needs it: with the spread that hidden work must have.
        enough: False if the steps are worth too few independent ones to compare ranks.
        load: Amounts of data that explain how own work differs; taken out before ranks are blamed.
        rotation: What late rounds are left when the stragglers' usual pace is taken out.
    """

    work: OwnWork
    own: Floats
    path: Floats
    enough: bool
    stragglers: tuple[Straggler, ...]
    load: Load | None
    rotation: Rotation

    def ranks_of(self, rows: Ints) -> tuple[int, ...]:
        """Give the ranks of rows."""
        return tuple(self.work.ranks[row] for row in rows)

    def billed_ms(self, rank: int, account: str) -> float:
        """Give what the stragglers' findings name of a rank's time in `account`, in ms per step.

        Findings about a single rank leave it out, so that no cause is billed twice. 0 for a rank
        that is not blamed, or is for another account.
        """
        billed = 0.0
        for one in self.stragglers:
            named = (one.cause.account,) if one.cause.account != "compute" else GROUPS["compute"]
            if account in named and rank in self.ranks_of(one.rows):
                billed += max(0.0, one.cause.excess_ms[account])
        return billed

    def departures_ns(self) -> Floats:
        """Give each row's mean own work less the median over the rows."""
        means = self.own.mean(axis=1)
        apart: Floats = means - np.median(means)
        return apart


def compare_ranks(window: StepWindow) -> Comparison | None:
    """Compare the ranks of a window; None if fewer than two can be compared.

    The first look is at all own work; where waiting may hide in accounts that hold work as well,
    others are at the own work with the least of those. Each is at ranks and at nodes. All looks
    together make one false alarm in a hundred reports.
    """
    work = measure_own_work(window)
    if work is None:
        return None
    load = explain_by_amount(window, work)
    even = work.own if load is None else np.maximum(work.own - load.excess, 1.0)
    nodes = _nodes(work)
    alpha = limit("rank_false_alarm")
    looks = (frozenset[str](), *work.doubtful)
    spare = alpha * (1.0 - _FIRST_LOOK) / max(1, len(looks) * (2 if nodes else 1) - 1)
    suspects: list[Suspect] = []
    enough = False
    for doubtful in looks:
        own, allowed = even, np.ones(len(even), dtype=bool)
        if doubtful:
            hidden = work.hidden(doubtful)
            # Who comes last waits least: its time there is the best guess for the work of all.
            own = np.maximum(even - hidden + hidden.min(axis=0), 1.0)
            allowed = _waits_less(own, hidden + work.waiting)
        test = measure_departures(own)
        enough = enough or test.enough
        allowed[[int(row) for one in suspects for row in one.rows]] = False
        slow = _slow(own, test, work, spare if doubtful else _FIRST_LOOK * alpha) & allowed
        for suspect in _slow_nodes(own, nodes, work, spare, doubtful):
            if allowed[suspect.rows].mean() >= limit("node_members"):
                suspects.append(suspect)
                slow[suspect.rows] = False
        suspects += [
            Suspect(
                np.array([row]), None, own, doubtful, test, int(row), float(np.median(own[row]))
            )
            for row in np.flatnonzero(slow)
        ]
    stragglers = blame(suspects, work)
    judged, doubtful = next(
        ((one.own, one.doubtful) for one in suspects if one.doubtful), (even, frozenset[str]())
    )
    rotation = find_late_rounds(judged, work.step)
    blamed = {int(row) for one in stragglers for row in one.rows}
    late = None if rotation.carrier in blamed else intermittent(rotation, judged, work)
    if late is not None:
        stragglers = (*stragglers, late)
    path = _with_spread(even, work.hidden(doubtful), sorted(blamed)) if doubtful else even
    return Comparison(work, judged, path, enough, stragglers, load, rotation)


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


def _slow(own: Floats, test: Departures, work: OwnWork, alpha: float) -> Marks:
    marks = test.slower(alpha)
    if marks.any():
        shares = shares_of_step(np.median(own, axis=1), test.log, work)
        marks &= shares >= limit("straggler_share_warning")
    return marks


def _waits_less(own: Floats, waiting: Floats) -> Marks:
    """Mark rows that wait less than the others by about what they do more."""
    waits, does = waiting.mean(axis=1), own.mean(axis=1)
    less: Marks = np.median(waits) - waits >= limit("waits_less") * (does - np.median(does))
    return less


def _nodes(work: OwnWork) -> dict[int, Ints]:
    """Give the rows of each node, if there are two nodes of two ranks or more."""
    nodes = np.asarray(work.nodes)
    rows = {int(node): np.flatnonzero(nodes == node) for node in np.unique(nodes)}
    several = {node: members for node, members in rows.items() if len(members) > 1}
    return several if len(several) > 1 else {}


def _slow_nodes(
    own: Floats, nodes: dict[int, Ints], work: OwnWork, alpha: float, doubtful: frozenset[str]
) -> list[Suspect]:
    """Find nodes that are slow as a whole: by their median rank, and three in four of their ranks."""
    if not nodes:
        return []
    of_node = np.stack([np.median(own[members], axis=0) for members in nodes.values()])
    test = measure_departures(of_node)
    slow = _slow(of_node, test, work, alpha)
    logs = np.log(np.maximum(np.median(own, axis=1), 1.0))
    found = []
    for place, (node, members) in enumerate(nodes.items()):
        if not slow[place]:
            continue
        others = np.setdiff1d(np.arange(len(own)), members)
        each = logs[members] - np.median(logs[others])
        if (each >= 0.5 * test.log[place]).mean() >= limit("node_members"):
            level = float(np.median(of_node[place]))
            found.append(Suspect(members, node, own, doubtful, test, place, level))
    return found
