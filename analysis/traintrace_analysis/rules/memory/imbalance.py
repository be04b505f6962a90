"""One rank that needs far more memory than the others."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import column, largest
from traintrace_analysis.rules.memory.peaks import CERTAIN, window_peaks
from traintrace_analysis.rules.observed import observed, recorded
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.step_window import Floats
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, size

_KIND: Final = "MEMORY_IMBALANCE"


def memory_imbalance(context: Context) -> list[Finding]:
    """Find the rank whose peak stands far above the median of the others."""
    what, peaks = _peaks(context)
    known = np.flatnonzero(np.isfinite(peaks))
    if len(known) < 2:
        return []
    worst = int(known[np.argmax(peaks[known])])
    others = float(np.median(peaks[known[known != worst]]))
    excess = float(peaks[worst]) - others
    name = "imbalance_share" if what == "allocated" else "imbalance_share_rss"
    if excess < limit("imbalance_floor") or excess < limit(name) * others:
        return []
    ranks = [rank.rank for rank in recorded(context)]
    floor = others + max(limit("imbalance_floor"), limit(name) * others)
    heavy = [ranks[row] for row in known if peaks[row] >= floor]
    also = "" if len(heavy) < 2 else f" {len(heavy)} ranks are above the limit."
    rest = "the other rank" if len(known) == 2 else f"the median of the other {len(known) - 1} is"
    more = f" ({percent(excess / others)} more)" if others > 0.0 else ""
    where = "on the device" if what == "allocated" else "of resident memory"
    return [
        observed(
            _KIND,
            "memory",
            "warning",
            CERTAIN,
            heavy,
            {
                "what": what,
                "worst_bytes": float(peaks[worst]),
                "worst_rank": ranks[worst],
                "median_of_others_bytes": others,
                "excess_bytes": excess,
                "excess_ratio": excess / others if others > 0.0 else None,
                "ranks_measured_count": len(known),
            },
            f"Rank {ranks[worst]} needs {size(excess)} more memory than the other rank{'' if len(known) == 2 else 's'}.",
            f"It held {size(float(peaks[worst]))} {where} at most, {rest} {size(others)}{more}.{also} "
            "The rank with most decides which batch fits.",
            "Look at what only this rank does: logging, gathered outputs, checkpoints, longer samples; with "
            "pipeline or expert parallelism, at how the model is divided.",
        )
    ]


def _peaks(context: Context) -> tuple[str, Floats]:
    """Give the peaks that compare ranks: of the devices where two or more are known, else of the host."""
    allocated = window_peaks(context, "peak_allocated_bytes")
    if np.isfinite(allocated).sum() >= 2:
        return "allocated", allocated
    resident = window_peaks(context, "rss_bytes")
    read = [largest(column(rank.process, "rss_bytes")) for rank in recorded(context)]
    return "resident", np.fmax(resident, np.asarray(read, dtype=np.float64))


def _missing(context: Context) -> str:
    if len(context.window.expected_ranks) < 2:
        return "other ranks to compare with (there is one rank)"
    if np.isfinite(_peaks(context)[1]).sum() < 2:
        return "memory of two ranks (fewer have a reading)"
    return ""


RULE: Final = Rule(
    topic="memory of the ranks",
    kinds=(
        Kind(
            name=_KIND,
            means="One rank needs far more memory than the others.",
            fires=(
                "Its peak is a tenth above the median of the other ranks (resident memory: a fifth), and at "
                "least 100 MB. Memory of the devices is compared where it is known, else resident memory."
            ),
            never="That the rank is slow, or that the division is a mistake: some are meant to be uneven.",
            action="Look at what only this rank does: logging, gathering, saving, longer samples.",
            limits=("imbalance_share", "imbalance_share_rss", "imbalance_floor"),
        ),
    ),
    examine=memory_imbalance,
    missing=_missing,
    needs_steps=False,
)
