"""What garbage collections and recompilations took out of the accounts beside the step.

Where they are a finding of their own, the account that was open leaves their time out, so that no
second is billed twice. Accounts of a row have lengths and no moments, so a pause before a step is shared
out over the row's accounts in proportion, and a pause inside a step over the step.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace.facts import RankFacts, Span
from traintrace_analysis.columns import as_integers, step_ids
from traintrace_analysis.context import NS_PER_MS, Context
from traintrace_analysis.rules.between_steps.incidents import (
    measure_collections,
    measure_compilations,
)


def named_apart_ns(context: Context) -> Mapping[str, float]:
    """Give the nanoseconds by account that findings of pauses and of ranks name, on the representative rank."""
    candidates = (
        (measure_collections(context), "gc"),
        (measure_compilations(context), "recompiles"),
    )
    named = [incidents for incidents, cause in candidates if incidents.is_named(context, cause)]
    rank, totals = context.rank, context.rank.totals
    apart: dict[str, float] = defaultdict(float)
    if context.comparison is not None:
        steady = max(0, totals.steps - context.window.warmup_steps)
        for account in totals.account_ns.keys() - set(STEP_ACCOUNT_NAMES):
            apart[account] += context.comparison.billed_ms(rank.rank, account) * NS_PER_MS * steady
    before, inside = (
        _spans_by_step(rank.spans, inside=False),
        _spans_by_step(rank.spans, inside=True),
    )
    for incidents in named:
        outside = frozenset(incidents.between)
        for event in incidents.events:
            ns = event.duration_ns or 0
            if event in outside:
                spans = before.get(event.step, ())
                _share_out(ns, spans, sum(span.ns for span in spans), apart)
            elif event.step in inside:
                _share_out(ns, inside[event.step], _step_ns(rank, event.step), apart)
    known = totals.account_ns
    return {
        account: min(ns, float(known.get(account, 0))) for account, ns in apart.items() if ns > 0.0
    }


def _spans_by_step(spans: Sequence[Span], *, inside: bool) -> dict[int, list[Span]]:
    by_step: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if span.inside is inside:
            by_step[span.step].append(span)
    return by_step


def _step_ns(rank: RankFacts, step: int) -> int:
    """Give a step's length from its open to its close; 0 without a row."""
    place = int(np.searchsorted(step_ids(rank), step))
    parts = [rank.columns.get(name) for name in ("start_ns", "duration_ns", "open_ns")]
    if any(part is None or place >= len(part) for part in parts):
        return 0
    start, duration, opened = (int(as_integers(part)[place]) for part in parts if part is not None)
    return start + duration - opened


def _share_out(ns: int, spans: Sequence[Span], whole: int, apart: dict[str, float]) -> None:
    for span in spans:
        apart[span.account] += min(ns, whole) * span.ns / whole if whole > 0 else 0.0
