"""What of each step no other rule names: the series in which spikes and drift are sought.

Spikes and drift say *how* time is lost, the other rules *where*. Where a rule names all the time of
an account, of garbage collections or of waiting for a slow rank, its seconds are taken out here, so
that none is billed twice. Its usual amount is put back, so the series keeps the level of the steps.
"""

from dataclasses import dataclass

import numpy as np

from traintrace.accounts import GROUPS, STEP_ACCOUNT_NAMES
from traintrace.facts import COMPILED
from traintrace_analysis.context import Context, weigh_cause
from traintrace_analysis.pauses import share_out
from traintrace_analysis.replay import critical_parts
from traintrace_analysis.rules.shares import exposed_share
from traintrace_analysis.rules.system.throttled import slowed_ns
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True, eq=False)
class OwnSteps:
    """The steady steps of the representative rank, in ns.

    Attributes:
        step: Step times as they were. own: the same without what other rules name, never under a
            hundredth of the step. bursts: like `own`, but with transfers and the rest: slow steps in
            these are named as slow steps, not by the account.
        counts: False on steps in which a graph was compiled; they are a finding of their own.
    """

    step: Floats
    own: Floats
    bursts: Floats
    counts: Marks


def own_steps(context: Context) -> OwnSteps:
    """Take what other rules name out of the representative rank's steady steps."""
    window, row, first = context.window, context.row, context.window.warmup_steps
    step = np.maximum(window.host["step_time"][row, first:], 1.0)  # logarithms are taken of it
    named = _named(context)
    moments = _moments(context)
    pauses = moments + _pauses(context, named)
    waits = pauses + _sum_of(context, named & {"input_wait"}, moments)
    counts = (window.flags[row, first:] & COMPILED) == 0
    return OwnSteps(
        step=step,
        own=_less(step, waits + _sum_of(context, named - {"input_wait"}, moments)),
        bursts=_less(step, waits),
        counts=counts,
    )


def _moments(context: Context) -> Floats:
    """Give what garbage collections took of each step, and what the rank itself kept others waiting."""
    window, row, first = context.window, context.row, context.window.warmup_steps
    moments = np.zeros(window.steady_steps)
    if context.comparison is not None:
        rank = context.rank.rank
        moments += context.comparison.lasting_ns(rank) + context.comparison.passing_ns(rank)
    if window.gc_ns is not None:
        moments += np.nan_to_num(window.gc_ns[row, first:])
    return moments


def _pauses(context: Context, named: frozenset[str]) -> Floats:
    """Give what starting epochs, waiting for a slow rank, and a clock that is held back took of each step."""
    row, first = context.row, context.window.warmup_steps
    pauses = _waiting_for_a_slow_rank(context, named)
    if context.wait is not None and "input_wait" not in named:
        pauses += np.nan_to_num(context.wait.excess[row, first:])
    return pauses + slowed_ns(context)


def _sum_of(context: Context, accounts: frozenset[str], moments: Floats) -> Floats:
    """Give what accounts took of each step, less what of `moments` lies in them: that is out already."""
    window, row, first = context.window, context.row, context.window.warmup_steps
    known = {
        name: np.nan_to_num(window.host[name][row : row + 1, first:])
        for name in STEP_ACCOUNT_NAMES
        if name in window.host and name not in GROUPS["waiting"]
    }
    inside = share_out(known, moments[None, :]) if moments.any() else {}
    total = np.zeros(window.steady_steps)
    for name in accounts:
        if name in window.host:
            total += np.nan_to_num(window.host[name][row, first:])
            total -= inside[name][0] if name in inside else 0.0
    return total


def _less(step: Floats, removed: Floats) -> Floats:
    """Take `removed` out of the steps and put its median back."""
    if not len(step):
        return step
    less: Floats = np.maximum(step - removed + np.median(removed), 0.01 * step)
    return less


def on_every_rank(context: Context, excess_ns: Floats) -> Floats:
    """Give the part of the representative rank's excess that each rank has too, over its own usual step.

    What only one rank has is the business of the ranks' own rules.
    """
    window = context.window
    steps = window.host["step_time"][:, window.warmup_steps :]
    above = np.maximum(steps - np.median(steps, axis=1, keepdims=True), 0.0)
    shared: Floats = np.minimum(above, excess_ns)
    shared[context.row] = excess_ns
    return shared


def growth_on_every_rank(context: Context, excess_ns: Floats) -> Floats:
    """Give the part of the representative rank's growth that the own work of each rank has too.

    Own work is compared with the shape of the growth as a whole, since after a jump most steps of a
    rank are slow and its median says nothing about the level before.
    """
    around = excess_ns - excess_ns.mean()
    weight = float(around @ around)
    if not weight > 0.0:
        return on_every_rank(context, excess_ns)
    parts = np.clip(critical_parts(context.window).own @ around / weight, 0.0, 1.0)
    parts[context.row] = 1.0
    shared: Floats = parts[:, None] * excess_ns
    return shared


def without_work(context: Context, values: Floats) -> tuple[Floats, str | None]:
    """Take out of steady steps what a differing amount of work per step explains.

    Tokens where they are known, samples else; only if they go along with the time closely.

    Returns:
        The values at the median amount of work, and "tokens" or "samples"; the values as they are and
        None if the work is unknown, always the same, or explains little.
    """
    window, row, first = context.window, context.row, context.window.warmup_steps
    for name, matrix in (("tokens", window.tokens), ("samples", window.samples)):
        work = matrix[row, first:]
        if not len(work) or np.isnan(work).any():
            continue
        spread, scatter = float(work.std()), float(values.std())
        if not spread > 0.0 or not scatter > 0.0:
            return values, None
        agreement = float(np.mean((work - work.mean()) * (values - values.mean()))) / (
            spread * scatter
        )
        if agreement < limit("work_correlation"):
            return values, None
        even = values - agreement * scatter / spread * (work - np.median(work))
        return np.maximum(even, 0.01 * values), name
    return values, None


def _named(context: Context) -> frozenset[str]:
    """Name the accounts that are over the limit of a rule that bills all of their time."""
    window = context.window
    causes = {"h2d": window.steady("h2d")}
    if window.clock == "host":
        causes["residual"] = window.steady("residual")
    if context.wait is not None:
        steady = context.wait.steady[:, window.warmup_steps :]
        causes["input"] = steady * exposed_share(context)
    accounts: set[str] = set()
    parts = {"h2d": ("h2d",), "residual": GROUPS["residual"], "input": ("input_wait",)}
    for name, cause in causes.items():
        weight = None if cause is None else weigh_cause(window, cause, name)
        if weight is not None and weight.share >= limit(f"{name}_share_warning"):
            accounts.update(parts[name])
    return frozenset(accounts)


def _waiting_for_a_slow_rank(context: Context, named: frozenset[str]) -> Floats:
    """Give what the rank waited for others beyond the least that any rank waited."""
    window, first = context.window, context.window.warmup_steps
    extra = np.zeros(window.steady_steps)
    if len(window.ranks) < 2:
        return extra
    for name in GROUPS["waiting"]:
        if name in window.host and name not in named:
            waits = np.nan_to_num(window.host[name][:, first:])
            extra += waits[context.row] - waits.min(axis=0)
    return extra
