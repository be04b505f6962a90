"""Read one rank's file, also while it is written. Readers name the columns they want; nobody selects all."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traintrace import facts
from traintrace.column import MISSING, Column
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.readings import (
    DeviceReading,
    ProcessReading,
    SystemReading,
    checked_values,
)
from traintrace.schema import COUNTERS, SCHEMA_VERSION, STEP_COLUMNS, reading_columns


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

    def columns(self, names: Sequence[str], *, since: int = 0) -> dict[str, Column]:
        """Read the named columns of `steps` in step order; a column the file lacks is all None.

        Args:
            names: Columns of the table.
            since: Leave out steps up to this number.

        Raises:
            KeyError: A name is no column of the table.
        """
        unknown = [name for name in names if name not in STEP_COLUMNS]
        if unknown:
            raise KeyError(f"no column {unknown[0]!r}; columns are {', '.join(STEP_COLUMNS)}")
        stored = {row[1] for row in self._rows("PRAGMA table_info(steps)")}
        present = [name for name in names if name in stored]
        chosen = ",".join(f"ifnull({name},{MISSING})" for name in present) or "step"
        rows = self._rows(f"SELECT {chosen} FROM steps WHERE step > {since:d} ORDER BY step")
        nothing = Column([MISSING]) if rows else Column()
        columns = {name: Column(nothing.values * len(rows)) for name in names}
        if rows:
            try:
                columns.update(zip(present, map(Column, zip(*rows, strict=True)), strict=False))
            except (TypeError, OverflowError) as error:
                raise RunReadError(f"{self._location}: damaged ({error})") from error
        return columns

    def last_step(self) -> int:
        """Give the number of the last step that has a row; 0 without rows."""
        (last,) = self._rows("SELECT ifnull(max(step), 0) FROM steps")[0]
        return int(last)

    def spans(self, *, since: int = 0) -> list[facts.Span]:
        """Read the spans after step `since`, in the order in which they were written."""
        rows = self._rows(
            f"SELECT step, account, inside, ns, calls FROM spans WHERE step > {since:d} ORDER BY rowid"
        )
        return [
            facts.Span(step, name, bool(inside), ns, calls)
            for step, name, inside, ns, calls in rows
        ]

    def regions(self, *, since: int = 0) -> list[facts.Region]:
        """Read the user's regions after step `since`."""
        rows = self._rows(
            f"SELECT step, name, ns, calls FROM regions WHERE step > {since:d} ORDER BY rowid"
        )
        return [facts.Region(*row) for row in rows]

    def scalars(self, *, since: int = 0) -> list[facts.Scalar]:
        """Read the values logged after step `since`; one that was not a number then is NaN."""
        rows = self._rows(
            f"SELECT step, name, value FROM scalars WHERE step > {since:d} ORDER BY rowid"
        )
        nan = float("nan")
        return [
            facts.Scalar(step, name, nan if value is None else value) for step, name, value in rows
        ]

    def events(self) -> list[facts.Event]:
        """Read the events in the order in which they were written; before schema 2 none has a length."""
        stored = {row[1] for row in self._rows("PRAGMA table_info(events)")}
        duration = "duration_ns" if "duration_ns" in stored else "NULL"
        rows = self._rows(
            f"SELECT at_ns, kind, step, detail, {duration} FROM events ORDER BY rowid"
        )
        return [facts.Event(*row) for row in rows]

    def system(self) -> list[SystemReading]:
        """Read the readings of the node; none before schema 3."""
        return [SystemReading(*row) for row in self._readings("system")]

    def process(self) -> list[ProcessReading]:
        """Read the readings of the process; none before schema 3."""
        return [ProcessReading(*row) for row in self._readings("process")]

    def devices(self) -> list[DeviceReading]:
        """Read the readings of the devices; none before schema 3."""
        return [DeviceReading(*row) for row in self._readings("devices")]

    def _readings(self, table: str) -> list[tuple[Any, ...]]:
        if not self._rows(f"PRAGMA table_info({table})"):
            return []
        names = reading_columns(table)
        rows = self._rows(f"SELECT {', '.join(names)} FROM {table} ORDER BY rowid")
        try:
            return [checked_values(names, row) for row in rows]
        except ValueError as error:
            raise RunReadError(f"{self._location}: damaged ({table}: {error})") from error

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
        counters = (
            dict.fromkeys(COUNTERS, 0)
            | {"gc_ns": None}
            | {
                name: value
                for name, value in self.meta().get("counters", {}).items()
                if name in COUNTERS
            }
        )
        rows = self._rows("SELECT account, ns, inside_ns, calls FROM totals")
        return facts.Totals(
            account_ns={name: ns for name, ns, _, _ in rows},
            inside_ns={name: inside for name, _, inside, _ in rows},
            calls={name: calls for name, _, _, calls in rows},
            **counters,
        )
