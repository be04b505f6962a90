"""From the books and counts of a session to the totals that are stored."""

from traintrace import accounts, facts
from traintrace.recording.books import LedgerTotals
from traintrace.recording.handover import Counts


def make_totals(
    ledger: LedgerTotals,
    counts: Counts,
    *,
    offset_ns: int,
    foreign_calls: int,
    dropped_events: int,
    gc_ns: int,
) -> facts.Totals:
    """Put the sums together; `offset_ns` makes moments Unix time."""
    named = {
        name: (ledger.total_ns[i], ledger.inside_ns[i], ledger.calls[i])
        for i, name in enumerate(accounts.NAMES)
        if ledger.total_ns[i] or ledger.calls[i]
    }
    return facts.Totals(
        account_ns={name: ns for name, (ns, _, _) in named.items()},
        inside_ns={name: inside for name, (_, inside, _) in named.items()},
        calls={name: calls for name, (_, _, calls) in named.items()},
        wall_ns=ledger.end_ns - ledger.start_ns,
        start_ns=ledger.start_ns + offset_ns,
        steps=ledger.steps,
        steps_aborted=ledger.steps_aborted,
        steps_abandoned=ledger.steps_abandoned,
        dropped_rows=counts.dropped_rows,
        micro_batches=counts.micro_batches,
        samples=counts.samples,
        tokens=counts.tokens,
        padded_tokens=counts.padded_tokens,
        updates_skipped=counts.updates_skipped,
        epochs=counts.epochs,
        transitions=ledger.transitions,
        foreign_calls=foreign_calls,
        unbalanced=ledger.unbalanced,
        dropped_events=dropped_events,
        gc_ns=gc_ns,
    )
