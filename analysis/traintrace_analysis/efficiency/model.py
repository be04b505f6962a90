"""The shapes of the efficiency budget; plain records, no calculation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from traintrace_analysis.findings import Clock

Convention = Literal["counted", "given", "6ND"]


@dataclass(frozen=True, slots=True)
class Work:
    """The floating-point work of all steps of one rank that count.

    Attributes:
        convention: "counted" on real steps, with the formulas of torch; "given" by the user; "6ND" for a known
            transformer, in which attention's scores are left out.
        by_format: Operations by number format; the one key is None where nobody knows the format.
        low, high: Operations if all work were like that of the counted step with least and with most per
            unit of `basis`; both are the total where nothing was extrapolated.
        basis: What the counted steps were extrapolated by: "samples", "padded_tokens", "tokens" or
            "micro_batches"; None where nothing was.
        steps: Steps that the work is of.
        counted_steps: How many of them were counted; 0 unless they were.
        recomputed_share: What was computed again in backward, over the work; 0.0 where it was not counted.
        uncounted: Operations that ran in counted steps and have no formula: they are missing.
    """

    convention: Convention
    by_format: Mapping[str | None, int]
    low: int
    high: int
    basis: str | None
    steps: int
    counted_steps: int = 0
    recomputed_share: float = 0.0
    uncounted: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Give the operations over all number formats."""
        return sum(self.by_format.values())


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a device can do at most, in the formats that a run computes in.

    Attributes:
        tflops: Operations a second [1e12] by number format.
        source: Where the figure is from; "given" if the user said so.
    """

    tflops: Mapping[str | None, float]
    source: str


@dataclass(frozen=True, slots=True)
class EfficiencyBudget:
    """Where the wall time of one rank went, against the peak of its device.

    Attributes:
        rank: Whose time it is; every rank has a device and a budget of its own.
        total_ns: Its wall time, the sum of `lines_ns` exactly.
        lines_ns: By line. "useful_compute" is the time that the work takes at peak, "compute_overhead" what
            computing took beyond that; together "compute" where one of the two is not known. On a
            device's clock "compute_elsewhere" is host time of compute less the device's: below 0, the device
            was at work while the host was in other lines. "flop_counting" is what counting steps cost.
        compute_ns: Time of compute that the work is held against, on `compute_clock`.
        work: None if it is not known. anchor: None as for `mfu`.
        mfu: Useful time over wall time; above 1 it is an error, and `problem` says so. None if the work or
            the peak is not known, and `reason` says why.
        mfu_low, mfu_high: The same for the least and the most work that the counted steps allow.
        mfu_step: The same over the time of steady steps alone; None also without steady steps.
        compute_share_of_peak: Useful time over `compute_ns`; None as for `mfu`.
        by_rank: `mfu` of every rank that recorded.
        problem: Why the numbers cannot be right; "" if they can.
        reason: Why there is no `mfu`; "" if there is.
        asked: The user said or wanted something about it.
        named_by: The kinds of findings that name seconds of a line, by line.
    """

    rank: int
    total_ns: int
    lines_ns: Mapping[str, int]
    compute_ns: int
    compute_clock: Clock
    work: Work | None
    anchor: Anchor | None
    mfu: float | None
    mfu_low: float | None
    mfu_high: float | None
    mfu_step: float | None
    compute_share_of_peak: float | None
    by_rank: Mapping[int, float | None]
    problem: str
    reason: str
    asked: bool
    named_by: Mapping[str, tuple[str, ...]]

    @property
    def flops_per_step(self) -> float | None:
        """Give the mean operations of a step; None if the work is not known."""
        work = self.work
        return None if work is None or not work.steps else work.total / work.steps
