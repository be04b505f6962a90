"""The looks at the ranks: all own work, or what of it certainly is none of the waiting that it may hold."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from traintrace_analysis.ranks.blame import Suspect
from traintrace_analysis.ranks.departures import Departures, measure_departures
from traintrace_analysis.ranks.own_work import OwnWork
from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One way to see the own work.

    Attributes:
        doubtful: Accounts that may hold waiting, of which only the least over the ranks counts.
        own: Ranks by rounds, in ns.
        waits: How long each rank waited, as far as anybody knows; None if nothing is in doubt.
        test: How the ranks depart from each other.
    """

    doubtful: frozenset[str]
    own: Floats
    waits: Floats | None
    test: Departures


def waits_less(own: Floats, waits: Floats) -> Marks:
    """Mark rows that wait less than the others by about what they do more."""
    waited, does = waits.mean(axis=1), own.mean(axis=1)
    less: Marks = np.median(waited) - waited >= limit("waits_less") * (does - np.median(does))
    return less


def take_look(even: Floats, work: OwnWork, doubtful: frozenset[str]) -> Look:
    """Look at own work without the waiting that `doubtful` accounts may hold."""
    if not doubtful:
        return Look(doubtful, even, None, measure_departures(even))
    hidden = work.hidden(doubtful)
    # Who comes last waits least: its time there is the best guess for the work of all.
    own = np.maximum(even - hidden + hidden.min(axis=0), 1.0)
    return Look(doubtful, own, hidden + work.waiting, measure_departures(own))


def find_slow(
    look: Look, work: OwnWork, known: Iterable[Suspect], alphas: tuple[float, float]
) -> list[Suspect]:
    """Find ranks and nodes that are slow all the time.

    Args:
        look: The own work.
        work: Where it comes from.
        known: Suspects of other looks, who are not tested again.
        alphas: Rates of false alarms of the tests of ranks and of nodes.
    """
    allowed = np.ones(len(look.own), dtype=bool)
    if look.waits is not None:
        allowed = waits_less(look.own, look.waits)
    allowed[[int(row) for one in known for row in one.rows]] = False
    slow = is_slow(look.own, look.test, work, alphas[0]) & allowed
    found = []
    for suspect in _slow_nodes(look, work, alphas[1]):
        if allowed[suspect.rows].mean() >= limit("node_members"):
            found.append(suspect)
            slow[suspect.rows] = False
    for row in np.flatnonzero(slow):
        level = float(np.median(look.own[row]))
        found.append(
            Suspect(np.array([row]), None, look.own, look.doubtful, look.test, int(row), level)
        )
    return found


def is_slow(own: Floats, test: Departures, work: OwnWork, alpha: float) -> Marks:
    """Mark rows that are slower beyond chance, and by enough of the step."""
    marks = test.slower(alpha)
    if marks.any():
        # Where ranks differ by chance, waiting for the slowest makes steps longer and no rank faster.
        excess = np.median(own, axis=1) * -np.expm1(-test.log)
        marks &= excess >= limit("straggler_share_warning") * work.even_step_ns
    return marks


def nodes_of(work: OwnWork) -> dict[int, Ints]:
    """Give the rows of each node, if there are two nodes of two ranks or more."""
    nodes = np.asarray(work.nodes)
    rows = {int(node): np.flatnonzero(nodes == node) for node in np.unique(nodes)}
    several = {node: members for node, members in rows.items() if len(members) > 1}
    return several if len(several) > 1 else {}


def _slow_nodes(look: Look, work: OwnWork, alpha: float) -> list[Suspect]:
    """Find nodes that are slow as a whole: by their median rank, and three in four of their ranks."""
    nodes, own = nodes_of(work), look.own
    if not nodes:
        return []
    of_node = np.stack([np.median(own[members], axis=0) for members in nodes.values()])
    test = measure_departures(of_node)
    slow = is_slow(of_node, test, work, alpha)
    logs = np.log(np.maximum(np.median(own, axis=1), 1.0))
    found = []
    for place, (node, members) in enumerate(nodes.items()):
        if not slow[place]:
            continue
        others = np.setdiff1d(np.arange(len(own)), members)
        each = logs[members] - np.median(logs[others])
        if (each >= 0.5 * test.log[place]).mean() >= limit("node_members"):
            level = float(np.median(of_node[place]))
            found.append(Suspect(members, node, own, look.doubtful, test, place, level))
    return found
