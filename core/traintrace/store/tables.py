"""The tables of one open rank file: their rows, and of damaged ones those rows that can be read."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from traintrace.errors import RunReadError
from traintrace.store.opening import open_for_reading
from traintrace.store.salvage import Row, is_held, readable_rows

Record = TypeVar("Record")


class Tables:
    """The tables of one file, open for reading.

    Attributes:
        damage: What could not be read so far, each in words; empty for a sound file.
        version: Schema version of the file; 0 if it never got one.

    Raises:
        RunReadError: The file is missing, or is no database.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._file = open_for_reading(location)
        self._connection = self._file.connection
        self.version = self._file.version
        self.damage: list[str] = []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def query(self, statement: str) -> list[Row]:
        """Run a query that must succeed.

        Raises:
            RunReadError: It does not.
        """
        try:
            return self._connection.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def sound(self, statement: str) -> list[Row] | None:
        """Run a query; None if it meets damage.

        Raises:
            RunReadError: Somebody else holds the file, or it lacks what is asked for.
        """
        try:
            return self._connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            if is_held(error) or "no such" in str(error):
                raise self._unreadable(error) from error
        except sqlite3.Error:
            pass  # damaged: None says so
        return None

    def stored(self, table: str) -> set[str]:
        """Give the columns that a table has in this file; none if there is no such table."""
        return {row[1] for row in self.query(f"PRAGMA table_info({table})")}

    def rows(self, table: str, columns: Sequence[str], condition: str = "") -> list[Row]:
        """Read rows of a table as they were written.

        Of a damaged table those that can be read are given, without the condition.
        """
        chosen = ", ".join(columns)
        rows = self.sound(f"SELECT {chosen} FROM {table}{condition} ORDER BY rowid")
        if rows is None:
            rows = self.salvaged(table, columns)
            self.miss(f"some of its {table}")
        return rows

    def salvaged(
        self, table: str, columns: Sequence[str], after: int = 0, last: int | None = None
    ) -> list[Row]:
        """Read the rows of a damaged table that can be read; see `salvage.readable_rows`."""
        try:
            return readable_rows(self._connection, table, columns, after=after, last=last)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def records(self, table: str, rows: Sequence[Row], make: Callable[..., Record]) -> list[Record]:
        """Make records of rows; a row that holds what cannot be is left out."""
        records = []
        for row in rows:
            try:
                records.append(make(*row))
            except (TypeError, ValueError, OverflowError):
                self.miss(f"some of its {table}")
        return records

    def miss(self, what: str) -> None:
        """Note that something could not be read."""
        if what not in self.damage:
            self.damage.append(what)

    def _unreadable(self, error: Exception) -> RunReadError:
        return RunReadError(f"{self._location}: damaged ({error})")
