"""One step while it is being captured, and its row when the books are done.

A capture holds what the journal cannot: counts, memory, logged values, flags. It ends once, by
`complete` or `abort`; a capture that has ended ignores every later call, so a late caller can never
finish a step that is not its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from traintrace import accounts, facts
from traintrace.ledger import LedgerRow

# An in-step account is reported as measured only where it was entered; these two always are.
_ALWAYS_MEASURED = (accounts.BATCH_PREP, accounts.OTHER)


class StepCapture:
    """Facts about the step that is open, until it is completed or aborted.

    A capture is made at every step on the training thread, so what is usual is a class attribute and
    only what was noted is an instance attribute.

    Attributes:
        micro_batches: Micro-batches so far.
        samples: True batch sizes summed; None until a batch of known size came.
        tokens: Tokens without padding. padded_tokens: tokens with it.
        updated: True once an optimizer update was attempted.
        update_skipped: True or False where it is known whether the update was skipped, else None.
        peak_allocated_bytes: Peak of the device's allocator, None without one. peak_reserved_bytes:
            the same for reserved memory. rss_bytes: resident memory of the process, filled in by the
            drain.
        scalars: Logged (name, value) pairs; a value may be an object that resolves later.
    """

    micro_batches: int = 0
    samples: int | None = None
    tokens: int | None = None
    padded_tokens: int | None = None
    epoch: int | None = None
    framework_step: int | None = None
    flags: int = 0
    updated: bool = False
    update_skipped: bool | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    rss_bytes: int | None = None
    scalars: Sequence[tuple[str, object]] = ()

    def __init__(self, end: "Callable[[StepCapture, bool], None]") -> None:
        self._end: Callable[[StepCapture, bool], None] | None = end

    @property
    def ended(self) -> bool:
        """Say whether the step was completed or aborted already."""
        return self._end is None

    def add_batch(
        self,
        samples: int | None = None,
        tokens: int | None = None,
        padded_tokens: int | None = None,
    ) -> None:
        """Count one micro-batch and its sizes; None adds nothing to that count."""
        self.micro_batches += 1
        self.count(samples, tokens, padded_tokens)

    def count(
        self,
        samples: int | None = None,
        tokens: int | None = None,
        padded_tokens: int | None = None,
    ) -> None:
        """Add to the step's sizes; None adds nothing."""
        if samples is not None:
            self.samples = (self.samples or 0) + samples
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens
        if padded_tokens is not None:
            self.padded_tokens = (self.padded_tokens or 0) + padded_tokens

    def log(self, name: str, value: object) -> None:
        """Note one logged value."""
        if not isinstance(self.scalars, list):
            self.scalars = []
        self.scalars.append((name, value))

    def complete(self) -> bool:
        """End the step here and publish it; False if it had ended already."""
        end, self._end = self._end, None
        if end is None:
            return False
        end(self, True)
        return True

    def abort(self) -> bool:
        """Drop the step: its time becomes `aborted`; False if it had ended already."""
        end, self._end = self._end, None
        if end is None:
            return False
        end(self, False)
        return True


@dataclass(frozen=True, slots=True)
class BookedStep:
    """A completed step as the store wants it: its row, and what lies beside the row."""

    row: facts.StepRow
    spans: tuple[facts.Span, ...]
    regions: tuple[facts.Region, ...]
    scalars: tuple[tuple[str, object], ...] = field(default=())


def book_step(step: int, row: LedgerRow, offset_ns: int, region_names: list[str]) -> BookedStep:
    """Turn a row of the ledger and its capture into records; `offset_ns` makes moments Unix time."""
    return BookedStep(
        _step_row(step, row, offset_ns),
        spans_of(step, row.between, row.inside, row.calls),
        tuple(
            facts.Region(step, region_names[number], ns, calls)
            for number, (ns, calls) in row.regions.items()
        ),
        tuple(row.capture.scalars),
    )


def _step_row(step: int, row: LedgerRow, offset_ns: int) -> facts.StepRow:
    capture = row.capture
    flags = capture.flags
    if capture.update_skipped is not None:
        flags |= facts.UPDATE_SKIPPED_KNOWN
        flags |= facts.UPDATE_SKIPPED if capture.update_skipped else 0
    return facts.StepRow(
        step=step,
        framework_step=capture.framework_step,
        epoch=capture.epoch,
        micro_batches=capture.micro_batches,
        samples=capture.samples,
        tokens=capture.tokens,
        padded_tokens=capture.padded_tokens,
        start_ns=row.start_ns + offset_ns,
        open_ns=row.open_ns + offset_ns,
        duration_ns=row.end_ns - row.start_ns,
        account_ns=_measured(row),
        calls={name: row.calls[accounts.number_of(name)] for name in accounts.PHASES},
        device_ns={},
        peak_allocated_bytes=capture.peak_allocated_bytes,
        peak_reserved_bytes=capture.peak_reserved_bytes,
        rss_bytes=capture.rss_bytes,
        flags=flags,
    )


def _measured(row: LedgerRow) -> Mapping[str, int]:
    return {
        accounts.NAMES[number]: row.inside[number]
        for number in accounts.STEP_ACCOUNTS
        if row.calls[number] or row.inside[number] or number in _ALWAYS_MEASURED
    }


def spans_of(
    step: int, between: tuple[int, ...], inside: tuple[int, ...], calls: tuple[int, ...]
) -> tuple[facts.Span, ...]:
    """Give the amounts of a row that are no column of the `steps` table."""
    spans = []
    in_step = frozenset(accounts.STEP_ACCOUNTS)
    for number, name in enumerate(accounts.NAMES):
        if between[number]:
            spans.append(facts.Span(step, name, False, between[number], calls[number]))
        if inside[number] and number not in in_step:
            outside_too = bool(between[number])
            spans.append(
                facts.Span(step, name, True, inside[number], 0 if outside_too else calls[number])
            )
    return tuple(spans)
