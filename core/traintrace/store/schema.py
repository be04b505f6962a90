"""The tables of a rank's file: their columns, and the version that a reader checks."""

from dataclasses import fields
from typing import Final

from traintrace import accounts
from traintrace.readings import DeviceReading, ProcessReading, SystemReading
from traintrace.store.stagetables import STAGE_TABLES

# 2: `gc_ns` of steps, `duration_ns` of events. 3: readings of system, process and devices.
# 4: stages and queues. 5: what queues held before.
SCHEMA_VERSION: Final = 5

_COUNT_COLUMNS: Final = (
    "step",
    "framework_step",
    "epoch",
    "micro_batches",
    "samples",
    "tokens",
    "padded_tokens",
    "start_ns",
    "open_ns",
    "duration_ns",
)
_ACCOUNT_COLUMNS: Final = tuple(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES)
_CALL_COLUMNS: Final = tuple(f"{name}_calls" for name in accounts.PHASES)
DEVICE_COLUMNS: Final = tuple(f"{name}_device_ns" for name in accounts.PHASES)
_MEMORY_COLUMNS: Final = ("peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes")
STEP_COLUMNS: Final = (
    *_COUNT_COLUMNS,
    *_ACCOUNT_COLUMNS,
    *_CALL_COLUMNS,
    *DEVICE_COLUMNS,
    *_MEMORY_COLUMNS,
    "gc_ns",
    "flags",
)

# Tables of readings; their columns are the fields of the records.
READING_TABLES: Final = {
    "system": SystemReading,
    "process": ProcessReading,
    "devices": DeviceReading,
}


def reading_columns(table: str) -> tuple[str, ...]:
    """Give the columns of a table of readings, in the order of the record's fields."""
    return tuple(field.name for field in fields(READING_TABLES[table]))


TABLES: Final = f"""
CREATE TABLE steps (step INTEGER PRIMARY KEY, {", ".join(f"{c} INTEGER" for c in STEP_COLUMNS[1:])});
CREATE TABLE spans (step INTEGER, account TEXT, inside INTEGER, ns INTEGER, calls INTEGER);
CREATE INDEX spans_by_step ON spans (step);
CREATE TABLE regions (step INTEGER, name TEXT, ns INTEGER, calls INTEGER);
CREATE TABLE scalars (step INTEGER, name TEXT, value REAL);
CREATE TABLE events (at_ns INTEGER, kind TEXT, step INTEGER, detail TEXT, duration_ns INTEGER);
CREATE TABLE totals (account TEXT PRIMARY KEY, ns INTEGER, inside_ns INTEGER, calls INTEGER);
CREATE TABLE blocks (first_step INTEGER, last_step INTEGER, account TEXT, count INTEGER,
    sum_ns INTEGER, sum_squares REAL, min_ns INTEGER, max_ns INTEGER, histogram TEXT);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
{STAGE_TABLES}""" + "\n".join(
    f"CREATE TABLE {table} ({', '.join(reading_columns(table))});" for table in READING_TABLES
)

# The counters of `facts.Totals`, kept as one JSON entry of `meta`.
COUNTERS: Final = (
    "wall_ns",
    "start_ns",
    "steps",
    "steps_aborted",
    "dropped_rows",
    "micro_batches",
    "samples",
    "tokens",
    "padded_tokens",
    "updates_skipped",
    "epochs",
    "transitions",
    "foreign_calls",
    "unbalanced",
    "steps_abandoned",
    "dropped_events",
    "gc_ns",
)
