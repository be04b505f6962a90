"""Memory that grows with every step to the end: a leak, as far as a run can show one."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import by_node, column, largest, of_steady_steps
from traintrace_analysis.rules.memory.growth import Growth, steady_growth
from traintrace_analysis.rules.memory.peaks import device_totals
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, number, seconds, size

_KIND: Final = "MEMORY_CREEP"
# Simulated: growth is found falsely in at most 0.8 % of runs, however correlated their readings; what
# stays possible is a sawtooth whose one tooth is longer than the window.
_CONFIDENCE: Final = 0.90
_WHERE: Final = {
    "device": "on the device",
    "process": "in the training process",
    "workers": "in the loader workers",
}
_ACTION: Final = {
    "device": "Look for tensors kept with their graph: losses or outputs appended to a list without "
    ".item() or .detach(), retain_graph=True, hidden states carried over steps.",
    "process": "Look for what each step appends to: lists of losses or outputs, logs, caches without a limit; "
    "tracemalloc names the line.",
    "workers": "Keep the dataset's index in a NumPy array or a tensor instead of lists of Python objects (each "
    "access copies their pages in every worker), or set persistent_workers=False.",
}


@dataclass(frozen=True, slots=True)
class _Leak:
    where: str
    rank: int
    growth: Growth


def memory_creep(context: Context) -> list[Finding]:
    """Find memory that grows over all the steady steps, on the device or on the host."""
    leaks = _leaks(context)
    if not leaks:
        return []
    worst = max(leaks, key=lambda leak: leak.growth.grown_bytes)
    growth, where = worst.growth, worst.where
    ranks = tuple(dict.fromkeys(leak.rank for leak in leaks if leak.where == where))
    left = _steps_left(context, worst, sum(leak.where == where for leak in leaks))
    steps = context.window.steady_steps
    step_ms = context.metrics["step_time"].mean_ms
    per_step_mb = growth.bytes_per_step / 1e6
    why = (
        f"On rank {worst.rank} it grew by {size(growth.grown_bytes)} over {count(steps, 'steady step')} and was "
        f"still growing at the end, at {size(growth.last_bytes)}."
    )
    if left is not None:
        time = "" if step_ms is None else f", {seconds(left * step_ms / 1e3)} at this pace"
        why += f" Memory ends in about {number(left)} steps{time}."
    elsewhere = {leak.where for leak in leaks} - {where}
    why += "".join(f" It grows {_WHERE[other]} too." for other in sorted(elsewhere))
    return [
        observed(
            _KIND,
            "memory",
            "critical" if left is not None and left < steps else "warning",
            _CONFIDENCE,
            ranks,
            {
                "where": where,
                "growth_mb_per_step": per_step_mb,
                "grown_bytes": growth.grown_bytes,
                "last_bytes": growth.last_bytes,
                "worst_rank": worst.rank,
                "steps_until_full": left,
                "steady_steps": steps,
            },
            f"Memory {_WHERE[where]} grows by {number(per_step_mb)} MB per step.",
            why,
            _ACTION[where],
        )
    ]


def _leaks(context: Context) -> list[_Leak]:
    window = context.window
    first = window.warmup_steps
    places = window.steps[first:].astype(np.float64)
    found = []
    for name, where in (("peak_allocated_bytes", "device"), ("rss_bytes", "process")):
        matrix = window.memory.get(name)
        if matrix is None:
            continue
        for row, rank in enumerate(window.ranks):
            values = matrix[row, first:]
            known = np.isfinite(values)  # short steps share a reading of the host
            growth = steady_growth(places[known], values[known])
            if growth is not None:
                found.append(_Leak(where, rank, growth))
    for row, facts in enumerate(window.facts):
        found.extend(_worker_leak(context, row, facts))
    return found


def _worker_leak(context: Context, row: int, facts: RankFacts) -> list[_Leak]:
    """Look at the descendants, which are read by the clock and not by the step."""
    window = context.window
    readings = of_steady_steps(window, facts, facts.process)
    if len(readings) < limit("creep_readings_minimum"):
        return []
    values = column(readings, "workers_rss_bytes")
    known = np.isfinite(values)
    # Whole nanoseconds since 1970 have no place in a float; seconds since the window began do.
    begin = int(window.start_ns[row, 0])
    closes = (window.close_ns[row] - begin) / NS_PER_S
    moments = np.asarray([one.at_ns - begin for one in readings], dtype=np.float64) / NS_PER_S
    places = np.interp(moments, closes, window.steps.astype(np.float64))
    growth = steady_growth(places[known], values[known])
    return [] if growth is None else [_Leak("workers", facts.rank, growth)]


def _steps_left(context: Context, leak: _Leak, leaking: int) -> float | None:
    """Give the steps until memory ends at this pace; None where its end is not known."""
    ranks = recorded(context)
    facts = next(rank for rank in ranks if rank.rank == leak.rank)
    if leak.where == "device":
        total = float(device_totals((facts,))[0])
        room, pace = total - leak.growth.last_bytes, leak.growth.bytes_per_step
    else:
        members = by_node(ranks)[facts.node]
        system = [reading for rank in members for reading in rank.system]
        total = largest(column(system, "ram_total_bytes")) or np.nan
        used = column(system, "ram_used_bytes")
        used = used[np.isfinite(used)]
        room = total - float(used[-1]) if len(used) else np.nan
        pace = leak.growth.bytes_per_step * min(leaking, len(members))
    return max(0.0, room / pace) if np.isfinite(room) else None


def _missing(context: Context) -> str:
    window = context.window
    least = limit("creep_readings_minimum")
    for name in ("peak_allocated_bytes", "rss_bytes"):
        matrix = window.memory.get(name)
        if matrix is not None:
            known = np.isfinite(matrix[:, window.warmup_steps :]).sum(axis=1)
            if known.max(initial=0) >= least:
                return ""
    if any(len(of_steady_steps(window, rank, rank.process)) >= least for rank in window.facts):
        return ""
    there = any(name in window.memory for name in ("peak_allocated_bytes", "rss_bytes"))
    few = f"fewer than {least:.0f} readings in the steady steps"
    return f"memory over time ({few if there else 'no memory was read'})"


RULE: Final = Rule(
    topic="growth of memory",
    kinds=(
        Kind(
            name=_KIND,
            means="Memory grows with the steps and does not stop: what a leak looks like.",
            fires=(
                "Over the steady steps it grows by 20 MB and 2 % or more, in every quarter, and in the last "
                "one at half the mean pace at least. Growth that saturates, a single jump, a sawtooth, and growth that is not clear of the noise do not fire."
            ),
            never=(
                "Which object leaks, nor that it is a leak: batches that grow, a cache that is still filling, and a "
                "sawtooth whose one rise fills the window look the same."
            ),
            action="Look for what each step keeps: losses with their graph, outputs in lists, caches.",
            limits=(
                "creep_readings_minimum",
                "creep_growth_floor",
                "creep_growth_share",
                "creep_rising_pairs",
                "creep_pace_minimum",
                "creep_pace_at_end",
                "creep_clearness",
            ),
        ),
    ),
    examine=memory_creep,
    missing=_missing,
)
