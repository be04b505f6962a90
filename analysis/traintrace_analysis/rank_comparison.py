"""The ranks of a run against each other, in the numbers that a report shows."""

from collections.abc import Mapping
from dataclasses import dataclass

from traintrace_analysis.findings import Clock


@dataclass(frozen=True, slots=True)
class RankWork:
    """One rank against the others; means per steady step.

    Attributes:
        own_ms: Own work. waiting_ms: known waiting for other ranks; None if none was ever marked.
        excess_ms: Own work less the median over the ranks; below 0 on a fast rank.
        excess_share: The same as a share of step time; None without one.
        last_share: Share of the steps in which this rank had most own work.
    """

    own_ms: float
    waiting_ms: float | None
    excess_ms: float
    excess_share: float | None
    last_share: float
    node: int


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """One node: the own work of its median rank, and that less the median over all ranks."""

    ranks: tuple[int, ...]
    own_ms: float
    excess_ms: float


@dataclass(frozen=True, slots=True)
class RankComparison:
    """The ranks against each other, those that can be compared.

    Attributes:
        clock: Clock of the own work: "device" where the device's work and its idle waits were compared.
        backward_split: True if backward holds no waiting for other ranks; False if it may.
        by_rank: By compared rank. by_node: by node of the compared ranks.
        left_out: Reason by rank that took part and is not compared.
    """

    clock: Clock
    backward_split: bool
    by_rank: Mapping[int, RankWork]
    by_node: Mapping[int, NodeComparison]
    left_out: Mapping[int, str]
