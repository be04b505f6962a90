"""Steps that take longer at the end of the run than at its beginning."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace_analysis.context import NS_PER_MS, NS_PER_S, Context
from traintrace_analysis.drift import Drift, find_drift
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.replay import replay
from traintrace_analysis.rules.process.delay import share_in
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs, sync_caution
from traintrace_analysis.rules.step_time.growth import account_series, largest_part
from traintrace_analysis.rules.step_time.own_steps import (
    growth_on_every_rank,
    own_steps,
    without_work,
)
from traintrace_analysis.step_window import Marks
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, milliseconds, percent, seconds


@dataclass(frozen=True, slots=True, eq=False)
class _Growth:
    """Growth of the steps; `work` names what explains it, `elsewhere` says if other rules name its time."""

    drift: Drift
    work: str | None
    elsewhere: bool


def drift(context: Context) -> list[Finding]:
    """Find steps whose time grows, and say where; growth of the work per step blames nobody."""
    growth = _growth(context)
    if growth is None:
        return []
    found = growth.drift
    excess = found.fitted - found.start
    blamed = growth.work is None and not growth.elsewhere
    named_from = limit("drift_growth_warning")
    report = named_from if found.growth >= named_from else limit("drift_report")
    confidence = found.chance_at_least(report)
    cost_s = float(excess.sum()) / NS_PER_S if blamed else 0.0
    late = _late(found)
    account, part = largest_part(account_series(context), late, _early(found, late))
    named = account if part >= limit("jitter_account_share") else None
    start_ms, end_ms = found.start / NS_PER_MS, found.end / NS_PER_MS
    at = None if found.shift_at is None else _step_number(context, found.shift_at)
    return [
        Finding(
            id="drift",
            kind="DRIFT",
            family="step_time",
            severity=_severity(found, cost_s) if blamed else "info",
            confidence=confidence,
            ranks=context.window.ranks,
            evidence={
                "start_ms": start_ms,
                "end_ms": end_ms,
                "drift_ms": end_ms - start_ms,
                "growth_share": found.growth,
                "shift_at_step": at,
                "grew_in": account,
                "grew_in_share": part,
                "work_that_grew": growth.work,
                "window_steps": len(found.fitted),
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=replay(context.window, growth_on_every_rank(context, excess)) if blamed else None,
            headline=(
                f"Steps got {percent(found.growth)} slower: from {milliseconds(start_ms)} to "
                f"{milliseconds(end_ms)}."
            ),
            why=_why(context, growth, at, named, part) + sync_caution(context),
            action=_action(context, growth, at, named),
        )
    ]


def grows_in(context: Context) -> str | None:
    """Name the account in which a growth lies that is a warning or worse; None without one."""
    growth = _growth(context)
    if growth is None or growth.work is not None or growth.elsewhere:
        return None
    found = growth.drift
    cost_s = float((found.fitted - found.start).sum()) / NS_PER_S
    if _severity(found, cost_s) == "info":
        return None
    late = _late(found)
    return largest_part(account_series(context), late, _early(found, late))[0]


def _growth(context: Context) -> _Growth | None:
    """Look at what no other rule names; if that stays level, at the whole step."""
    steps = own_steps(context)
    for series, elsewhere in ((steps.own, False), (steps.step, True)):
        found = find_drift(series[steps.counts])
        if found is None:
            continue
        even, work = without_work(context, series)
        left = find_drift(even[steps.counts]) if work is not None else None
        if work is not None and (left is None or left.growth < 0.5 * found.growth):
            return _Growth(_spread_out(found, steps.counts), work, elsewhere)
        return _Growth(_spread_out(found, steps.counts), None, elsewhere)
    return None


def _spread_out(found: Drift, counts: Marks) -> Drift:
    """Give the fit for every steady step, where some were left out of the search."""
    if counts.all():
        return found
    places = np.maximum(np.cumsum(counts) - 1, 0)
    shift = None if found.shift_at is None else int(np.flatnonzero(counts)[found.shift_at])
    return Drift(found.start, found.end, found.fitted[places], shift, found.error)


def _late(found: Drift) -> Marks:
    if found.shift_at is not None:
        return np.asarray(np.arange(len(found.fitted)) >= found.shift_at)
    return np.asarray(np.arange(len(found.fitted)) >= 0.8 * len(found.fitted))


def _early(found: Drift, late: Marks) -> Marks:
    if found.shift_at is not None:
        return ~late
    return np.asarray(np.arange(len(found.fitted)) < 0.2 * len(found.fitted))


def _step_number(context: Context, place: int) -> int:
    return int(context.window.steps[context.window.warmup_steps + place])


def _severity(found: Drift, cost_s: float) -> Severity:
    if found.growth < limit("drift_growth_warning"):
        return "info"
    added_ms = (found.end - found.start) / NS_PER_MS
    if added_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor"):
        return "info"
    chance = found.chance_at_least(limit("drift_growth_critical"))
    return "critical" if chance >= limit("confidence_of_critical") else "warning"


def _core_waits(context: Context, found: Drift) -> tuple[float, float] | None:
    """Give the shares of time without a CPU core before and after the rise, if that is what rose."""
    late = _late(found)
    early, after = np.flatnonzero(_early(found, late)), np.flatnonzero(late)
    if not len(early) or not len(after):
        return None
    shares = [share_in(context, int(part[0]), int(part[-1])) for part in (early, after)]
    before, then = shares
    if before is None or then is None or then - before < limit("run_queue_share_warning"):
        return None
    return before, then


def _why(
    context: Context, growth: _Growth, at: int | None, account: str | None, part: float
) -> str:
    found = growth.drift
    over = count(len(found.fitted), "step")
    lost = seconds(float((found.fitted - found.start).sum()) / NS_PER_S)
    how = f"at once, at step {at:,}" if at is not None else "steadily"
    text = f"Over {over} the time of a step rose {how}; what lies above the beginning is {lost}."
    if account is not None:
        text += f" {percent(part)} of the rise is {account}."
    else:
        text += " No single account holds half of the rise."
    if growth.work is not None:
        text += f" The number of {growth.work} per step rose with it, which explains the time."
    elif growth.elsewhere:
        text += " Its seconds are counted with the finding that names that time, not here."
    waits = _core_waits(context, found)
    if waits is not None:
        text += (
            f" The training thread waited for a CPU core {percent(waits[1])} of the later time and "
            f"{percent(waits[0])} of the earlier."
        )
    if len(context.window.steps) < context.rank.totals.steps:
        text += " What came before these steps is not looked at one by one."
    return text


def _action(context: Context, growth: _Growth, at: int | None, account: str | None) -> str:
    if growth.work is not None:
        return (
            f"Nothing is wrong if {growth.work} per step are meant to grow; else batch by length, or "
            "shuffle."
        )
    if _core_waits(context, growth.drift) is not None:
        since = "later on" if at is None else f"from step {at:,} on"
        return (
            f"Find what runs on the CPU cores {since}: another job on the machine, or threads and workers of "
            "the run's own; end it, or give training cores of its own."
        )
    where = f" in {account}" if account is not None else ""
    if at is not None:
        return (
            f"Look at what changed at step {at:,}{where}: a schedule, unfrozen layers, another job on "
            "the machine, clocks throttled by heat."
        )
    return (
        f"Look for state that grows from step to step{where}: kept graphs (a loss that is summed without "
        ".item()), lists of results, hooks added again and again, a buffer that is searched; or heat."
    )


RULE: Final = Rule(
    topic="drift of the steps",
    kinds=(
        Kind(
            name="DRIFT",
            means="Steps take longer and longer, or from some step on.",
            fires=(
                "The level of the steps rises by a tenth or more from the beginning of the steady part to "
                "its end, by more than steps that remember each other explain; from 3 % on it is "
                "mentioned. Growth that other rules name, or that tokens or samples per step explain, is "
                "mentioned and costs nothing here. Needs 60 steady steps."
            ),
            never=(
                "That a wave or a climb that starts anew with each epoch is growth; that the program is "
                "at fault: heat and other jobs slow steps as well."
            ),
            action="Look for state that grows, or at what changed at that step.",
            limits=(
                "drift_growth_warning",
                "drift_growth_critical",
                "drift_report",
                "drift_significance",
                "drift_short_memory",
                "drift_plain",
                "drift_steps_minimum",
                "work_correlation",
                "step_loss_floor",
                "run_loss_floor",
            ),
        ),
    ),
    examine=drift,
    missing=needs("step_time"),
)
