"""The comparison of ranks as a report shows it."""

import numpy as np

from traintrace_analysis.rank_comparison import NodeComparison, RankComparison, RankWork
from traintrace_analysis.ranks.comparison import Comparison

_NS_PER_MS = 1e6


def summarise_ranks(comparison: Comparison | None) -> RankComparison | None:
    """Put the comparison into numbers by rank and by node; None without one."""
    if comparison is None:
        return None
    work = comparison.work
    own = comparison.own.mean(axis=1) / _NS_PER_MS
    apart = comparison.departures_ns() / _NS_PER_MS
    step = float(work.step.mean()) / _NS_PER_MS
    waiting = work.waiting.mean(axis=1) / _NS_PER_MS
    last = np.bincount(comparison.own.argmax(axis=0), minlength=len(own)) / work.rounds
    known = work.marked or bool(work.waiting.any())
    by_rank = {
        rank: RankWork(
            own_ms=float(own[row]),
            waiting_ms=float(waiting[row]) if known else None,
            excess_ms=float(apart[row]),
            excess_share=float(apart[row] / step) if step > 0.0 else None,
            last_share=float(last[row]),
            node=work.nodes[row],
        )
        for row, rank in enumerate(work.ranks)
    }
    nodes = np.asarray(work.nodes)
    middle = float(np.median(own))
    by_node = {}
    for node in sorted(set(work.nodes)):
        members = np.flatnonzero(nodes == node)
        level = float(np.median(own[members]))
        by_node[node] = NodeComparison(comparison.ranks_of(members), level, level - middle)
    return RankComparison(
        clock=work.clock,
        backward_split=work.marked and not work.sharded,
        by_rank=by_rank,
        by_node=by_node,
        left_out=work.left_out,
    )
