"""What the ledger hands out: the books of a completed step, and the sums so far."""

from dataclasses import dataclass

from traintrace.recording.steps import StepCapture


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The books of one completed step, from the step before's close to its own.

    Attributes:
        inside: Nanoseconds per account between the step's open and its close.
        between: Nanoseconds per account before the open.
        calls: Outermost calls per account in the row.
        regions: Nanoseconds and calls per region number.
        capture: The facts that came with the step.
    """

    start_ns: int
    open_ns: int
    end_ns: int
    inside: tuple[int, ...]
    between: tuple[int, ...]
    calls: tuple[int, ...]
    regions: dict[int, tuple[int, int]]
    capture: StepCapture


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """Sums over all rows and the tail, as of one instant; `total_ns` sums to `end_ns - start_ns`.

    Attributes:
        steps: Completed steps that count. steps_aborted: steps that were dropped, abandoned ones too.
        steps_abandoned: Completed steps that count no more: all up to this number.
    """

    start_ns: int
    end_ns: int
    total_ns: tuple[int, ...]
    inside_ns: tuple[int, ...]
    calls: tuple[int, ...]
    steps: int
    steps_aborted: int
    steps_abandoned: int
    transitions: int
    unbalanced: int
