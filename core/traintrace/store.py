"""The store: one SQLite file per rank and attempt, written by that rank's drain thread alone.

WAL and synchronous=FULL while it is written, one transaction per flush, so that a killed process
leaves every flushed step readable; a closed file is one ordinary SQLite database. Readers name the
columns they want, and nobody selects all.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from traintrace import accounts, facts
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.steps import BookedStep

SCHEMA_VERSION: Final = 1

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
_DEVICE_COLUMNS: Final = tuple(f"{name}_device_ns" for name in accounts.PHASES)
_MEMORY_COLUMNS: Final = ("peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes")
STEP_COLUMNS: Final = (
    *_COUNT_COLUMNS,
    *_ACCOUNT_COLUMNS,
    *_CALL_COLUMNS,
    *_DEVICE_COLUMNS,
    *_MEMORY_COLUMNS,
    "flags",
)

_TABLES: Final = f"""
CREATE TABLE steps (step INTEGER PRIMARY KEY, {", ".join(f"{c} INTEGER" for c in STEP_COLUMNS[1:])});
CREATE TABLE spans (step INTEGER, account TEXT, inside INTEGER, ns INTEGER, calls INTEGER);
CREATE INDEX spans_by_step ON spans (step);
CREATE TABLE regions (step INTEGER, name TEXT, ns INTEGER, calls INTEGER);
CREATE TABLE scalars (step INTEGER, name TEXT, value REAL);
CREATE TABLE events (at_ns INTEGER, kind TEXT, step INTEGER, detail TEXT);
CREATE TABLE totals (account TEXT PRIMARY KEY, ns INTEGER, inside_ns INTEGER, calls INTEGER);
CREATE TABLE blocks (first_step INTEGER, last_step INTEGER, account TEXT, count INTEGER,
    sum_ns INTEGER, sum_squares REAL, min_ns INTEGER, max_ns INTEGER, histogram TEXT);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
"""


class RankWriter:
    """Writes one rank's file. Use from one thread at a time.

    If the disk refuses (full, gone read-only), writing goes on in memory, so that the report at the
    end still has everything; `fault` then says what happened.

    Attributes:
        location: What a reader must open: the file's path, or a shared in-memory name.
        fault: Why the file is no longer written; None while it is.
    """

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self.fault: str | None = None
        self._connection = _connect_for_writing(self.location)
        self._lay_out()

    def _lay_out(self) -> None:
        self._connection.executescript(_TABLES)
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._connection.commit()

    def write(
        self,
        steps: Sequence[BookedStep],
        totals: facts.Totals,
        *,
        tail: Sequence[facts.Span] = (),
        scalars: Iterable[facts.Scalar] = (),
        events: Iterable[facts.Event] = (),
        device_ns: Iterable[tuple[int, Mapping[str, int]]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Write one flush in one transaction: rows, what lies beside them, and totals as of the last."""
        batch = (
            list(map(_step_values, (booked.row for booked in steps))),
            [_span_values(span) for booked in steps for span in booked.spans]
            + [_span_values(span) for span in tail],
            [
                (region.step, region.name, region.ns, region.calls)
                for booked in steps
                for region in booked.regions
            ],
            [(scalar.step, scalar.name, scalar.value) for scalar in scalars],
            [(event.at_ns, event.kind, event.step, event.detail) for event in events],
            [(*(times.get(name) for name in accounts.PHASES), step) for step, times in device_ns],
            _totals_values(totals),
            [(key, json.dumps(value)) for key, value in (meta or {}).items()]
            + [("counters", json.dumps(_counters(totals)))],
        )
        try:
            self._write(batch)
        except sqlite3.Error as error:
            self._continue_in_memory(error)
            self._write(batch)

    def _write(self, batch: tuple[list[tuple[Any, ...]], ...]) -> None:
        steps, spans, regions, scalars, events, device, totals, meta = batch
        with self._connection as connection:
            connection.executemany(_INSERT_STEP, steps)
            connection.executemany("INSERT INTO spans VALUES (?,?,?,?,?)", spans)
            connection.executemany("INSERT INTO regions VALUES (?,?,?,?)", regions)
            connection.executemany("INSERT INTO scalars VALUES (?,?,?)", scalars)
            connection.executemany("INSERT INTO events VALUES (?,?,?,?)", events)
            connection.executemany(_UPDATE_DEVICE, device)
            connection.executemany("INSERT OR REPLACE INTO totals VALUES (?,?,?,?)", totals)
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?,?)", meta)

    def _continue_in_memory(self, error: sqlite3.Error) -> None:
        if self.fault is not None:
            raise error
        self.fault = f"{type(error).__name__}: {error}"
        self.location = f"file:traintrace-{id(self)}?mode=memory&cache=shared"
        memory = _connect_for_writing(self.location)
        try:
            self._connection.backup(memory)
        except sqlite3.Error:  # the file cannot even be read: what was flushed before is lost
            memory.executescript(_TABLES)
        self._connection.close()
        self._connection = memory

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query; for retention."""
        return self._connection.execute(statement, values).fetchall()

    def run_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Run statements in one transaction: all take effect or none; for retention."""
        with self._connection as connection:
            for statement, values in statements:
                connection.execute(statement, values)

    def close(self) -> None:
        """Leave one ordinary file behind; a file in memory lives until `release`."""
        if self.fault is None:
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.Error as error:  # a reader holds it, or the disk is full: the WAL stays
                self.fault = f"{type(error).__name__}: {error}"
            self._connection.close()

    def release(self) -> None:
        """Close whatever `close` left open."""
        self._connection.close()


_INSERT_STEP: Final = (
    f"INSERT INTO steps ({','.join(STEP_COLUMNS)}) VALUES ({','.join('?' * len(STEP_COLUMNS))})"
)
_UPDATE_DEVICE: Final = (
    f"UPDATE steps SET {', '.join(f'{column} = ?' for column in _DEVICE_COLUMNS)} WHERE step = ?"
)


def _connect_for_writing(location: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        location, uri=location.startswith("file:"), check_same_thread=False, timeout=10
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _step_values(row: facts.StepRow) -> tuple[Any, ...]:
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
        row.flags,
    )


def _span_values(span: facts.Span) -> tuple[Any, ...]:
    return (span.step, span.account, int(span.inside), span.ns, span.calls)


def _totals_values(totals: facts.Totals) -> list[tuple[Any, ...]]:
    return [
        (name, ns, totals.inside_ns.get(name, 0), totals.calls.get(name, 0))
        for name, ns in totals.account_ns.items()
    ]


_COUNTERS: Final = (
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
)


def _counters(totals: facts.Totals) -> dict[str, int | None]:
    return {name: getattr(totals, name) for name in _COUNTERS}


class RankReader:
    """Reads one rank's file, also while it is being written.

    Raises:
        RunReadError: The file is missing, is no traintrace file, or is damaged.
        NewerSchemaError: It was written by a newer traintrace.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        if not location.startswith("file:") and not Path(location).is_file():
            raise RunReadError(f"{location}: no such rank file")
        uri = (
            location
            if location.startswith("file:")
            else f"{Path(location).resolve().as_uri()}?mode=ro"
        )
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=10)
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise RunReadError(f"{location}: cannot be read as a rank file ({error})") from error
        if version > SCHEMA_VERSION:
            self.close()
            raise NewerSchemaError(
                f"{location}: written with schema {version}, this traintrace reads up to "
                f"{SCHEMA_VERSION}; upgrade traintrace"
            )
        if version < 1:
            self.close()
            raise RunReadError(f"{location}: not a traintrace rank file")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise RunReadError(f"{self._location}: damaged ({error})") from error

    def columns(self, names: Sequence[str]) -> dict[str, list[int | None]]:
        """Read the named columns of `steps` in step order; a column the file lacks is all None.

        Raises:
            KeyError: A name is no column of the table.
        """
        unknown = [name for name in names if name not in STEP_COLUMNS]
        if unknown:
            raise KeyError(f"no column {unknown[0]!r}; columns are {', '.join(STEP_COLUMNS)}")
        stored = {row[1] for row in self._rows("PRAGMA table_info(steps)")}
        present = [name for name in names if name in stored]
        rows = self._rows(f"SELECT {','.join(present) or 'step'} FROM steps ORDER BY step")
        columns: dict[str, list[int | None]] = {name: [] for name in names}
        if present and rows:
            columns.update(zip(present, map(list, zip(*rows, strict=True)), strict=True))
        for name in names:
            if name not in present:
                columns[name] = [None] * len(rows)
        return columns

    def spans(self) -> list[facts.Span]:
        """Read all spans, in the order in which they were written."""
        rows = self._rows("SELECT step, account, inside, ns, calls FROM spans ORDER BY rowid")
        return [
            facts.Span(step, name, bool(inside), ns, calls)
            for step, name, inside, ns, calls in rows
        ]

    def regions(self) -> list[facts.Region]:
        """Read the user's regions."""
        rows = self._rows("SELECT step, name, ns, calls FROM regions ORDER BY rowid")
        return [facts.Region(*row) for row in rows]

    def scalars(self) -> list[facts.Scalar]:
        """Read the logged values; one that was not a number when it was logged is NaN."""
        rows = self._rows("SELECT step, name, value FROM scalars ORDER BY rowid")
        nan = float("nan")
        return [
            facts.Scalar(step, name, nan if value is None else value) for step, name, value in rows
        ]

    def events(self) -> list[facts.Event]:
        """Read the events."""
        rows = self._rows("SELECT at_ns, kind, step, detail FROM events ORDER BY rowid")
        return [facts.Event(*row) for row in rows]

    def meta(self) -> dict[str, Any]:
        """Read what is known of the rank besides its rows.

        Raises:
            RunReadError: An entry is not JSON.
        """
        try:
            return {
                key: json.loads(text) for key, text in self._rows("SELECT key, value FROM meta")
            }
        except (ValueError, TypeError) as error:
            raise RunReadError(f"{self._location}: the meta table is damaged ({error})") from error

    def totals(self) -> facts.Totals:
        """Read the exact sums as of the last flush; all zero before the first."""
        counters = dict.fromkeys(_COUNTERS, 0) | {
            name: value
            for name, value in self.meta().get("counters", {}).items()
            if name in _COUNTERS
        }
        rows = self._rows("SELECT account, ns, inside_ns, calls FROM totals")
        return facts.Totals(
            account_ns={name: ns for name, ns, _, _ in rows},
            inside_ns={name: inside for name, _, inside, _ in rows},
            calls={name: calls for name, _, _, calls in rows},
            **counters,
        )
