"""Ranks compared with each other: who keeps the others waiting, with what, and how sure that is."""

from traintrace_analysis.ranks.blame import Straggler
from traintrace_analysis.ranks.comparison import Comparison, compare_ranks
from traintrace_analysis.ranks.own_work import OwnWork, is_sharded

__all__ = ["Comparison", "OwnWork", "Straggler", "compare_ranks", "is_sharded"]
