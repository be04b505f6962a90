"""From the books of a completed step to the records that are stored: its row, and what lies beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from traintrace import accounts, facts
from traintrace.recording.books import LedgerRow

# An in-step account is reported as measured only where it was entered; these two always are.
_ALWAYS_MEASURED = (accounts.BATCH_PREP, accounts.OTHER)


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
        gc_ns=capture.gc_ns,
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
