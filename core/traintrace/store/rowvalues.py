"""Records as the rows of their tables: values in the order of the columns."""

import json
from collections.abc import Mapping
from typing import Any

from traintrace import accounts, facts
from traintrace.store.schema import COUNTERS

Row = tuple[Any, ...]


def step_values(row: facts.StepRow) -> Row:
    """Give a row of `steps`."""
    return (
        row.step,
        row.framework_step,
        row.epoch,
        row.micro_batches,
        row.samples,
        row.tokens,
        row.padded_tokens,
        row.start_ns,
        row.open_ns,
        row.duration_ns,
        *(row.account_ns.get(name) for name in accounts.STEP_ACCOUNT_NAMES),
        *(row.calls.get(name) for name in accounts.PHASES),
        *(row.device_ns.get(name) for name in accounts.PHASES),
        row.peak_allocated_bytes,
        row.peak_reserved_bytes,
        row.rss_bytes,
        row.gc_ns,
        row.flags,
    )


def span_values(span: facts.Span) -> Row:
    """Give a row of `spans`."""
    return (span.step, span.account, int(span.inside), span.ns, span.calls)


def event_values(event: facts.Event) -> Row:
    """Give a row of `events`."""
    return (event.at_ns, event.kind, event.step, event.detail, event.duration_ns)


def totals_values(totals: facts.Totals) -> list[Row]:
    """Give the rows of `totals`."""
    return [
        (name, ns, totals.inside_ns.get(name, 0), totals.calls.get(name, 0))
        for name, ns in totals.account_ns.items()
    ]


def meta_values(meta: Mapping[str, Any]) -> list[Row]:
    """Give rows of `meta`."""
    return [(key, json.dumps(value)) for key, value in meta.items()]


def counters(totals: facts.Totals) -> dict[str, int | None]:
    """Give the counters of the totals, which are one entry of `meta`."""
    return {name: getattr(totals, name) for name in COUNTERS}
