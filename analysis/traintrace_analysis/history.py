"""The run as a whole: its attempts, how much was done, and a short series to draw."""

from collections.abc import Iterable, Sequence

import numpy as np

from traintrace.facts import RankFacts, RunFacts, RunStatus
from traintrace_analysis.columns import Aligner
from traintrace_analysis.convergence.signals import logged_by
from traintrace_analysis.model import Attempt, Counts, Series
from traintrace_analysis.step_window import Floats, Ints, StepWindow

_POINTS = 200
_NS_PER_MS = 1e6
_NS_PER_S = 1e9
# The state of an attempt is that of its worst rank.
_STATUS_ORDER: tuple[RunStatus, ...] = ("lost", "failed", "interrupted", "running", "completed")


def list_attempts(facts: RunFacts) -> tuple[Attempt, ...]:
    """Give one record per start of the job, in order."""
    attempts: list[Attempt] = []
    end_before: int | None = None
    for number in sorted({rank.attempt for rank in facts.ranks}):
        ranks = [rank for rank in facts.ranks if rank.attempt == number]
        # A rank that died before its span began, or whose sums are damaged, has no moments.
        placed = [rank for rank in ranks if rank.totals.start_ns]
        start = min((rank.totals.start_ns for rank in placed), default=None)
        end = max(map(_alive_until, placed), default=None)
        states = {rank.status for rank in ranks}
        attempts.append(
            Attempt(
                n=number,
                status=next(state for state in _STATUS_ORDER if state in states),
                wall_s=0.0 if start is None or end is None else (end - start) / _NS_PER_S,
                downtime_before_s=_downtime(end_before, start),
                steps=max(rank.totals.steps for rank in ranks),
            )
        )
        end_before = end
    return tuple(attempts)


def _alive_until(rank: RankFacts) -> int:
    """Give when a rank's attempt ended: a rank that was killed had begun a step that no row tells of."""
    ended = rank.totals.start_ns + rank.totals.wall_ns
    if rank.status not in ("lost", "running") or rank.seen_ns is None:
        return ended
    return max(ended, rank.seen_ns)


def _downtime(end_before: int | None, start: int | None) -> float | None:
    """Give the seconds between two attempts; None where clocks of two machines contradict each other."""
    if end_before is None or start is None or start < end_before:
        return None
    return (start - end_before) / _NS_PER_S


def count_work(ranks: Sequence[RankFacts]) -> Counts:
    """Count what one attempt did, from exact totals."""
    totals = [rank.totals for rank in ranks]
    return Counts(
        steps=_most(one.steps for one in totals),
        steps_aborted=_most(one.steps_aborted for one in totals),
        steps_unpublished=_unpublished(ranks),
        updates_skipped=_most(one.updates_skipped for one in totals),
        micro_batches=_most(one.micro_batches or None for one in totals),
        samples=_sum(one.samples for one in totals),
        tokens=_sum(one.tokens for one in totals),
        padded_tokens=_sum(one.padded_tokens for one in totals),
        epochs=_most(one.epochs for one in totals),
        dropped_rows=_sum(one.dropped_rows for one in totals),
    )


def _unpublished(ranks: Sequence[RankFacts]) -> int | None:
    """Give 0 if every rank wrote its last flush, which holds all that was completed; else None."""
    all_ended = bool(ranks) and all(rank.status not in ("running", "lost") for rank in ranks)
    return 0 if all_ended else None


def draw_series(window: StepWindow, rank: int | None) -> Series:
    """Give at most 200 points of one rank's window, warm-up included."""
    if rank is None or not len(window.steps) or rank not in window.ranks:
        return Series()
    row = window.ranks.index(rank)
    aligner = Aligner(window.facts[row : row + 1], window.steps)
    memory = aligner.floats("peak_allocated_bytes")
    if memory is None:
        memory = aligner.floats("rss_bytes")
    wait = window.host.get("input_wait")
    edges = np.linspace(0, len(window.steps), min(_POINTS, len(window.steps)) + 1, dtype=np.int64)
    return Series(
        step=tuple(int(window.steps[edge]) for edge in edges[:-1]),
        step_time_ms=_points(window.host["step_time"][row] / _NS_PER_MS, edges),
        input_wait_ms=_points(None if wait is None else wait[row] / _NS_PER_MS, edges),
        loss=_points(_loss(window, row), edges),
        memory_bytes=_points(None if memory is None else memory[0], edges),
    )


def _points(values: Floats | None, edges: Ints) -> tuple[float | None, ...]:
    """Give the mean of each stretch over its known values; None where there are none."""
    if values is None:
        return (None,) * (len(edges) - 1)
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), edges[:-1])
    counts = np.add.reduceat(known.astype(np.int64), edges[:-1])
    return tuple(
        float(total / count) if count else None for total, count in zip(sums, counts, strict=True)
    )


def _loss(window: StepWindow, row: int) -> Floats | None:
    """Give the loss per step, NaN where none was logged; values that are not finite are left out."""
    logged = logged_by(window.facts[row : row + 1], window.ranks[row])
    if logged is None or logged.loss is None:
        return None
    loss = logged.loss.sound()
    values = np.full(len(window.steps), np.nan)
    here = np.isin(loss.steps, window.steps)
    values[np.searchsorted(window.steps, loss.steps[here])] = loss.values[here]
    return values


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    if not known or any(value is None for value in known):
        return None
    return sum(value for value in known if value is not None)
