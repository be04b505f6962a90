"""Read one rank's file, also while it is written, and what can be read of a damaged one.

Readers name the columns they want; nobody selects all.
"""

import json
from collections.abc import Callable, Sequence
from operator import lt
from typing import Any, Final

from traintrace import facts
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.readings import (
    DeviceReading,
    ProcessReading,
    SystemReading,
    checked_values,
)
from traintrace.stagefacts import Pipeline
from traintrace.store.column import MISSING, Column
from traintrace.store.salvage import Row, missing_ranges
from traintrace.store.schema import COUNTERS, SCHEMA_VERSION, STEP_COLUMNS, reading_columns
from traintrace.store.stagereading import read_pipeline
from traintrace.store.tables import Record, Tables

# Ranges of missing steps that are named one by one.
_NAMED: Final = 4
LAST_POSSIBLE: Final = 2**63 - 1
_NO_COUNTERS: Final = dict.fromkeys(COUNTERS, 0) | {"gc_ns": None}


class RankReader:
    """Reads one rank's file, also while it is being written.

    What lies on damaged pages is left out, and `damage` says so.

    Raises:
        RunReadError: The file is missing, is no traintrace file, or nothing of it can be read.
        NewerSchemaError: It was written by a newer traintrace.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._tables = Tables(location)
        version = self._tables.version
        if version > SCHEMA_VERSION:
            self.close()
            raise NewerSchemaError(
                f"{location}: written with schema {version}, this traintrace reads up to "
                f"{SCHEMA_VERSION}; upgrade traintrace"
            )
        if version < 1:
            self.close()
            raise RunReadError(f"{location}: not a traintrace rank file")

    @property
    def damage(self) -> list[str]:
        """What could not be read so far, each in words; empty for a sound file."""
        return self._tables.damage

    def close(self) -> None:
        """Close the file."""
        self._tables.close()

    def columns(
        self, names: Sequence[str], *, since: int = 0, until: int = LAST_POSSIBLE
    ) -> dict[str, Column]:
        """Read the named columns of `steps` in step order; a column the file lacks is all None.

        Args:
            names: Columns of the table.
            since: Leave out steps up to this number.
            until: Leave out steps after this number.

        Raises:
            KeyError: A name is no column of the table.
        """
        unknown = [name for name in names if name not in STEP_COLUMNS]
        if unknown:
            raise KeyError(f"no column {unknown[0]!r}; columns are {', '.join(STEP_COLUMNS)}")
        stored = self._tables.stored("steps")
        present = [name for name in names if name in stored]
        rows = self._step_rows([f"ifnull({name},{MISSING})" for name in present], since, until)
        try:
            read = [Column(column) for column in zip(*rows, strict=True)]
        except (TypeError, OverflowError):
            whole = [row for row in rows if all(map(_is_integer, row))]
            self._tables.miss(f"{len(rows) - len(whole)} of its steps")
            read = [Column(column) for column in zip(*whole, strict=True)]
        columns = dict(zip(present, read[1:], strict=False))
        length = len(read[0]) if read else 0
        nothing = Column([MISSING]) if length else Column()
        return {name: columns.get(name, Column(nothing.values * length)) for name in names}

    def _step_rows(
        self, chosen: Sequence[str], since: int, until: int = LAST_POSSIBLE
    ) -> list[Row]:
        """Read rows of steps, each with its number before what was chosen."""
        columns = ["step", *chosen]
        rows = self._tables.sound(
            f"SELECT {', '.join(columns)} FROM steps "
            f"WHERE step > {since:d} AND step <= {until:d} ORDER BY step"
        )
        if rows is not None:
            steps = [since, *(row[0] for row in rows)]
            # Of a page that was written in part SQLite gives rows that nobody wrote.
            if all(map(lt, steps, steps[1:])):
                return rows
        last = self._last_counted()
        rows = self._tables.salvaged("steps", columns, since, last)
        rows = [row for row in rows if row[0] <= until]
        last = None if last is None else min(last, until)
        self._miss_steps([row[0] for row in rows], since + 1, last)
        return rows

    def _miss_steps(self, steps: Sequence[int], first: int, last: int | None) -> None:
        if last is None:
            self._tables.miss("steps that lie on damaged pages" if steps else "its steps")
            return
        gaps = missing_ranges(steps, first, last, self._folded())
        named = [f"{low} to {high}" if low < high else f"{low}" for low, high in gaps[:_NAMED]]
        if gaps:
            more = f" and {len(gaps) - _NAMED} more ranges" if len(gaps) > _NAMED else ""
            self._tables.miss(f"steps {', '.join(named)}{more}")

    def _folded(self) -> tuple[int, int]:
        """Give the first and last step whose rows were folded into blocks; (0, 0) if there are none."""
        try:
            first, last = self._tables.query("SELECT min(first_step), max(last_step) FROM blocks")[
                0
            ]
        except RunReadError:
            return 0, 0
        return (first, last) if _is_integer(first) and _is_integer(last) else (0, 0)

    def _last_counted(self) -> int | None:
        """Give the last completed step as the sums have it; None if they cannot be read."""
        counters = self.meta().get("counters")
        if not isinstance(counters, dict):
            return None
        numbers = [counters.get(name, 0) for name in ("steps", "steps_abandoned")]
        return sum(numbers) if all(map(_is_integer, numbers)) else None

    def last_step(self) -> int:
        """Give the number of the last step that has a row; 0 without rows."""
        found = self._tables.sound("SELECT ifnull(max(step), 0) FROM steps")
        if found is None:
            found = [(max((row[0] for row in self._step_rows([], 0)), default=0),)]
        return int(found[0][0])

    def spans(self, *, since: int = 0, until: int = LAST_POSSIBLE) -> list[facts.Span]:
        """Read the spans after step `since` up to `until`, in the order in which they were written."""
        return self._tables.records(
            "spans",
            self._after("spans", ["step", "account", "inside", "ns", "calls"], since, until),
            lambda step, name, inside, ns, calls: facts.Span(step, name, bool(inside), ns, calls),
        )

    def regions(self, *, since: int = 0) -> list[facts.Region]:
        """Read the user's regions after step `since`."""
        rows = self._after("regions", ["step", "name", "ns", "calls"], since)
        return self._tables.records("regions", rows, facts.Region)

    def scalars(self, *, since: int = 0) -> list[facts.Scalar]:
        """Read the values logged after step `since`; one that was not a number then is NaN."""
        nan = float("nan")
        return self._tables.records(
            "scalars",
            self._after("scalars", ["step", "name", "value"], since),
            lambda step, name, value: facts.Scalar(step, name, nan if value is None else value),
        )

    def _after(
        self, table: str, columns: Sequence[str], since: int, until: int = LAST_POSSIBLE
    ) -> list[Row]:
        """Read the rows after step `since` up to `until`; `step` is the first of the columns."""
        rows = self._tables.rows(table, columns, f" WHERE step > {since:d} AND step <= {until:d}")
        # Rows around damage come without the condition.
        return [row for row in rows if _is_integer(row[0]) and since < row[0] <= until]

    def events(self) -> list[facts.Event]:
        """Read the events in the order in which they were written; before schema 2 none has a length."""
        duration = "duration_ns" if "duration_ns" in self._tables.stored("events") else "NULL"
        rows = self._tables.rows("events", ["at_ns", "kind", "step", "detail", duration])
        return self._tables.records("events", rows, facts.Event)

    def system(self) -> list[SystemReading]:
        """Read the readings of the node; none before schema 3."""
        return self._readings("system", SystemReading)

    def process(self) -> list[ProcessReading]:
        """Read the readings of the process; none before schema 3."""
        return self._readings("process", ProcessReading)

    def devices(self) -> list[DeviceReading]:
        """Read the readings of the devices; none before schema 3."""
        return self._readings("devices", DeviceReading)

    def pipeline(self) -> Pipeline | None:
        """Read the stages and queues; None if there are none, as before schema 4."""
        return read_pipeline(self._tables)

    def _readings(self, table: str, make: Callable[..., Record]) -> list[Record]:
        if not self._tables.stored(table):
            return []
        names = reading_columns(table)
        return self._tables.records(
            table, self._tables.rows(table, names), lambda *row: make(*checked_values(names, row))
        )

    def meta(self) -> dict[str, Any]:
        """Read what is known of the rank besides its rows; an entry that is no JSON is left out."""
        return dict(
            self._tables.records(
                "description",
                self._tables.rows("meta", ["key", "value"]),
                lambda key, text: (str(key), json.loads(text)),
            )
        )

    def totals(self) -> facts.Totals:
        """Read the exact sums as of the last flush; all zero before the first.

        Raises:
            RunReadError: They cannot be read, or not all of them.
        """
        found = self.meta().get("counters", {})
        rows = self._tables.query("SELECT account, ns, inside_ns, calls FROM totals")
        if not isinstance(found, dict) or (rows and "wall_ns" not in found):
            raise RunReadError(f"{self._location}: damaged (no counters beside its totals)")
        counters = _NO_COUNTERS | {name: found[name] for name in COUNTERS if name in found}
        return facts.Totals(
            account_ns={name: ns for name, ns, _, _ in rows},
            inside_ns={name: inside for name, _, inside, _ in rows},
            calls={name: calls for name, _, _, calls in rows},
            **counters,
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, int)
