"""What happens inside other accounts: garbage collections and compilations, after the warm-up.

Their time is part of whatever account was open, so it is told apart here by moment: inside a step, or
between steps. What happens in the warm-up belongs to the warm-up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from traintrace.facts import COMPILED, Event, RankFacts
from traintrace_analysis.columns import as_integers, step_ids
from traintrace_analysis.context import NS_PER_S, Context, grade_of_wall
from traintrace_analysis.findings import CostBasis, Severity
from traintrace_analysis.step_window import Floats

_FIRST_OF_ITS_CODE = "/0"
_NAMED: Final = ("warning", "critical")


@dataclass(frozen=True, slots=True)
class Incidents:
    """Incidents of one kind on the representative rank.

    Attributes:
        events: Those that are counted, in time order.
        between: Those of `events` that began between steps.
        inside_s: Seconds inside steps; over ranks, where each step waits for the slowest.
        own_inside_s: The representative rank's own seconds inside steps.
        between_s: Seconds between steps; of compilations over ranks as well.
        basis: "window" if the window's mean had to stand for the rest of the run.
    """

    events: tuple[Event, ...]
    between: tuple[Event, ...]
    inside_s: float
    own_inside_s: float
    between_s: float
    basis: CostBasis

    @property
    def inside(self) -> tuple[Event, ...]:
        """Those of `events` that began inside a step."""
        outside = frozenset(self.between)
        return tuple(event for event in self.events if event not in outside)

    @property
    def cost_s(self) -> float:
        """Seconds that the run lost."""
        return self.inside_s + self.between_s

    def severity(self, context: Context, cause: str) -> Severity | None:
        """Grade what was lost against the limits of `cause`."""
        wall_s = context.rank.totals.wall_ns / NS_PER_S
        return grade_of_wall(self.cost_s / wall_s, cause, self.cost_s) if wall_s > 0.0 else None

    def is_named(self, context: Context, cause: str) -> bool:
        """Tell whether they are a finding, so that what was open meanwhile leaves them out."""
        return self.severity(context, cause) in _NAMED


def measure_collections(context: Context) -> Incidents:
    """Measure the pauses of Python's garbage collector on the training thread.

    Inside steps they are exact, the shortest included; between steps only those of a millisecond and
    more are known by their moment. Start-up, warm-up and shutdown are left out, and so are steps that
    compile, which collect as part of it. Over several ranks a step loses what its slowest collector
    takes, since the others wait for it.
    """
    window, totals = context.window, context.rank.totals
    kept = _events(context, "gc", after=_first_counted(context) - 1)
    kept = _outside(kept, own_compilations(context).events)
    # Of what lies between steps, start-up and shutdown are no loss of the loop.
    ends = frozenset(e for e in _between(context, kept) if not 1 < e.step <= totals.last_step)
    kept = tuple(event for event in kept if event not in ends)
    between = _between(context, kept)
    if window.gc_ns is None or not window.steady_steps:
        return Incidents(kept, between, 0.0, 0.0, _length_s(between), "run")
    first = window.warmup_steps
    steady = np.nan_to_num(window.gc_ns[:, first:])
    steady = np.where(window.flags[:, first:] & COMPILED, 0.0, steady)
    counted = max(0, totals.steps - window.warmup_steps)
    scale = counted / window.steady_steps / NS_PER_S
    return Incidents(
        events=kept,
        between=between,
        inside_s=float(steady.max(axis=0).sum()) * scale,
        own_inside_s=float(steady[context.row].sum()) * scale,
        between_s=_length_s(between),
        basis="run" if counted == window.steady_steps else "window",
    )


def measure_compilations(context: Context) -> Incidents:
    """Measure the compilations after the warm-up; over ranks a step loses what its slowest compiles.

    Ranks compile at different steps where their shapes differ, and all wait for the one that does. The
    events are those of the representative rank.
    """
    own = own_compilations(context)
    longest: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for facts in context.window.facts:
        if facts.rank == context.rank.rank:
            found = own
        elif any(event.kind == "compilation" for event in facts.events):
            found = own_compilations(replace(context, rank=facts))
        else:
            continue
        for side, events in zip(longest, (found.inside, found.between), strict=True):
            for step, ns in _by_step(events).items():
                side[step] = max(ns, side.get(step, 0))
    if not any(longest):
        return own
    inside_s, between_s = (sum(side.values()) / NS_PER_S for side in longest)
    return replace(own, inside_s=inside_s, between_s=between_s)


def seen_by_who_compiles_most(context: Context) -> Context:
    """Look at the run from the rank that compiles longest; the representative one if none does longer."""

    def compiled_s(facts: RankFacts) -> tuple[float, bool]:
        spent_s = own_compilations(replace(context, rank=facts)).cost_s
        return spent_s, facts.rank == context.rank.rank

    return replace(context, rank=max(context.window.facts, key=compiled_s, default=context.rank))


def own_compilations(context: Context) -> Incidents:
    """Measure the compilations of the representative rank after the warm-up, whatever others do.

    Where the window does not hold the start of the run, or all of it is warm-up, code that is compiled
    for the first time belongs to the start, whenever it ran; compiling it again does not.
    """
    window = context.window
    begins = bool(len(window.steps)) and window.steady_steps > 0 and int(window.steps[0]) <= 1
    kept = _events(context, "compilation", after=_first_counted(context) - 1 if begins else 0)
    if not begins:
        kept = tuple(event for event in kept if not is_first(event))
    between = _between(context, kept)
    between_s = _length_s(between)
    inside_s = _length_s(kept) - between_s
    return Incidents(kept, between, inside_s, inside_s, between_s, "run")


def named_pauses(context: Context) -> Floats | None:
    """Give what the findings about collections and compilations name of each steady step.

    Returns:
        Ranks by steady steps in ns, each rank's own pauses; None if neither is a finding.
    """
    window, first = context.window, context.window.warmup_steps
    collected = window.gc_ns is not None and measure_collections(context).is_named(context, "gc")
    compiled = measure_compilations(context).is_named(context, "recompiles")
    if not (collected or compiled) or window.steady_steps < 1:
        return None
    pauses = np.zeros((len(window.ranks), window.steady_steps))
    if collected and window.gc_ns is not None:
        steady = np.nan_to_num(window.gc_ns[:, first:])
        pauses += np.where(window.flags[:, first:] & COMPILED, 0.0, steady)
    for row, facts in enumerate(window.facts if compiled else ()):
        inside = own_compilations(replace(context, rank=facts)).inside
        places = np.searchsorted(window.steps, [event.step for event in inside]) - first
        for event, place in zip(inside, places, strict=True):
            if 0 <= place < window.steady_steps and window.steps[first + place] == event.step:
                pauses[row, place] += event.duration_ns or 0
    return pauses


def is_first(event: Event) -> bool:
    """Tell whether a compilation was the first of its code, as far as its id says."""
    return event.detail.split(" ")[0].endswith(_FIRST_OF_ITS_CODE)


def _first_counted(context: Context) -> int:
    """Give the first step after the warm-up."""
    window = context.window
    if not window.warmup_steps or not len(window.steps):
        return 1
    return int(window.steps[window.warmup_steps - 1]) + 1


def _events(context: Context, kind: str, *, after: int) -> tuple[Event, ...]:
    return tuple(
        event
        for event in context.rank.events
        if event.kind == kind and event.duration_ns is not None and event.step > after
    )


def _between(context: Context, events: Sequence[Event]) -> tuple[Event, ...]:
    """Give those of `events` that began before their step was opened, or belong to no step's row."""
    ids, opened = step_ids(context.rank), context.rank.columns.get("open_ns")
    if opened is None or not len(ids):
        return tuple(events)
    moments = as_integers(opened)
    found = []
    for event in events:
        place = int(np.searchsorted(ids, event.step))
        known = place < len(ids) and ids[place] == event.step
        if not known or event.at_ns < moments[place]:
            found.append(event)
    return tuple(found)


def _by_step(events: Sequence[Event]) -> dict[int, int]:
    spent: dict[int, int] = {}
    for event in events:
        spent[event.step] = spent.get(event.step, 0) + (event.duration_ns or 0)
    return spent


def _length_s(events: Sequence[Event]) -> float:
    return sum(event.duration_ns or 0 for event in events) / NS_PER_S


def _outside(events: tuple[Event, ...], longer: Sequence[Event]) -> tuple[Event, ...]:
    """Leave out what began inside one of `longer`, which follow each other: it is counted there."""
    if not longer:
        return events
    starts = np.array([event.at_ns for event in longer])
    ends = starts + np.array([event.duration_ns or 0 for event in longer])
    moments = np.array([event.at_ns for event in events], dtype=np.int64)
    place = np.searchsorted(starts, moments, side="right") - 1
    within = (place >= 0) & (moments < ends[np.maximum(place, 0)])
    return tuple(event for event, is_in in zip(events, within, strict=True) if not is_in)
