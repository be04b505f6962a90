"""The store: one SQLite file per rank and attempt, written by that rank's drain thread alone.

WAL and synchronous=FULL while it is written, one transaction per flush, so that a killed process
leaves every flushed step readable; a closed file is one ordinary SQLite database.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from traintrace import accounts, facts
from traintrace.readings import Reading
from traintrace.recording.rows import BookedStep
from traintrace.store.rowvalues import (
    counters,
    event_values,
    meta_values,
    span_values,
    step_values,
    totals_values,
)
from traintrace.store.salvage import is_held
from traintrace.store.schema import (
    SCHEMA_VERSION,
    STEP_COLUMNS,
    TABLES,
    reading_columns,
)
from traintrace.store.stagetables import StageRows, StageWriter

_LAST_CHECKPOINT_MS: Final = 500
_LOOK_AGAIN_S: Final = 0.005


class RankWriter:
    """Writes one rank's file. Use from one thread at a time.

    If the disk refuses (full, gone read-only), writing goes on in memory, so that the report at the
    end still has everything; `fault` then says what happened.

    Attributes:
        path: Where the file lies, or lay until the disk refused.
        location: What a reader must open: the file's path, or a shared in-memory name.
        fault: Why the file is no longer written; None while it is.

    Args:
        path: Where the file will lie.
        head: What its meta table says from the first moment on.

    Raises:
        FileExistsError: There is a file already; nobody writes into another process's record.
        sqlite3.Error: It cannot be written.
    """

    def __init__(self, path: Path, head: Mapping[str, Any] | None = None) -> None:
        self._head = meta_values(head or {})
        self.path = path
        self.location = str(path)
        self.fault: str | None = None
        try:
            # Of two processes that take themselves for one rank, one gets through.
            open(path, "xb").close()
        except FileExistsError:
            raise FileExistsError(f"{path}: this rank has recorded in this run already") from None
        try:
            self._connection = _connect_for_writing(self.location)
        except sqlite3.Error:
            remove_rank_file(path)
            raise
        try:
            self._lay_out()
        except sqlite3.Error:
            self.take_back()
            raise

    def _lay_out(self) -> None:
        self._stages = StageWriter()
        # One transaction: a disk is waited for once, and a process that dies here leaves all or nothing.
        with self._connection as connection:
            connection.execute("BEGIN")
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            _insert(connection, "INSERT OR REPLACE INTO meta", self._head)

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
        abandoned: int = 0,
        readings: Mapping[str, Sequence[Reading]] | None = None,
        stages: StageRows | None = None,
    ) -> None:
        """Write one flush in one transaction: rows, what lies beside them, and totals as of the last.

        `readings` are by table. Steps up to the number `abandoned` count no more: their rows say so, their blocks go.
        """
        batch = (
            list(map(step_values, (booked.row for booked in steps))),
            [span_values(span) for booked in steps for span in booked.spans]
            + [span_values(span) for span in tail],
            [
                (region.step, region.name, region.ns, region.calls)
                for booked in steps
                for region in booked.regions
            ],
            [(scalar.step, scalar.name, scalar.value) for scalar in scalars],
            [event_values(event) for event in events],
            [(*(times.get(name) for name in accounts.PHASES), step) for step, times in device_ns],
            totals_values(totals),
            meta_values({**(meta or {}), "counters": counters(totals)}),
        )
        taken = {
            table: [tuple(getattr(one, name) for name in reading_columns(table)) for one in rows]
            for table, rows in (readings or {}).items()
        }
        try:
            self._write(batch, abandoned, taken, stages)
        except sqlite3.DatabaseError as error:
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
                raise  # a defect of ours, not of the disk
            self._continue_in_memory(error)
            self._write(batch, abandoned, taken, stages)

    def _write(
        self,
        batch: tuple[list[tuple[Any, ...]], ...],
        abandoned: int,
        readings: Mapping[str, list[tuple[Any, ...]]],
        stages: StageRows | None,
    ) -> None:
        steps, spans, regions, scalars, events, device, totals, meta = batch
        with self._connection as connection:
            _insert(connection, f"INSERT INTO steps ({','.join(STEP_COLUMNS)})", steps)
            _insert(connection, "INSERT INTO spans", spans)
            _insert(connection, "INSERT INTO regions", regions)
            _insert(connection, "INSERT INTO scalars", scalars)
            _insert(connection, "INSERT INTO events", events)
            for table, rows in readings.items():
                _insert(connection, f"INSERT INTO {table}", rows)
            if stages is not None:
                self._stages.write(connection, stages)
            connection.executemany(_UPDATE_DEVICE, device)
            if abandoned:
                connection.execute(_FLAG_ABANDONED, (abandoned,))
                connection.execute("DELETE FROM blocks WHERE last_step <= ?", (abandoned,))
            # An account whose time was abandoned may have none left.
            connection.execute("DELETE FROM totals")
            _insert(connection, "INSERT INTO totals", totals)
            _insert(connection, "INSERT OR REPLACE INTO meta", meta)

    def _continue_in_memory(self, error: sqlite3.Error) -> None:
        if self.fault is not None:
            raise error
        self.fault = f"{type(error).__name__}: {error}"
        broken, place = self._connection, f"file:traintrace-{id(self)}?mode=memory&cache=shared"
        self._connection = _connect_for_writing(place)
        try:
            broken.backup(self._connection)
        except sqlite3.Error:  # the file cannot even be read: what was flushed before is lost
            self._lay_out()
        self.location = place
        broken.close()

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query; for retention."""
        return self._connection.execute(statement, values).fetchall()

    def run_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Run statements in one transaction: all take effect or none; for retention."""
        with self._connection as connection:
            for statement, values in statements:
                connection.execute(statement, values)

    def close(self) -> str | None:
        """Leave one ordinary file behind; say why if that failed, in which case nothing is lost.

        A file in memory lives until `release`.
        """
        if self.fault is not None:
            return None
        try:
            # A reader that holds the file must not hold up the end of training.
            self._connection.execute(f"PRAGMA busy_timeout = {_LAST_CHECKPOINT_MS}")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._leave_log()
        except sqlite3.Error as error:
            return str(error)
        finally:
            self._connection.close()
        return None

    def _leave_log(self) -> None:
        """Become one file. SQLite does not wait for a reader here, and rank 0 looks at each file often."""
        until = time.monotonic() + _LAST_CHECKPOINT_MS / 1e3
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = DELETE")
                return
            except sqlite3.OperationalError as error:
                if not is_held(error) or time.monotonic() >= until:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def release(self) -> None:
        """Close whatever `close` left open."""
        self._connection.close()

    def take_back(self) -> None:
        """Close the file and leave nothing of it."""
        self._connection.close()
        remove_rank_file(self.path)


def remove_rank_file(path: Path) -> None:
    """Remove a rank's file with all that SQLite keeps beside it."""
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


# A phase that the host did not see in a step has no device time either: absent, and not zero.
_UPDATE_DEVICE: Final = (
    "UPDATE steps SET "
    + ", ".join(
        f"{n}_device_ns = CASE WHEN {n}_ns IS NULL THEN NULL ELSE ? END" for n in accounts.PHASES
    )
    + " WHERE step = ?"
)
_FLAG_ABANDONED: Final = (
    f"UPDATE steps SET flags = flags | {facts.ABANDONED} "
    f"WHERE step <= ? AND flags & {facts.ABANDONED} = 0"
)


# Rows of one statement. Each statement gives up the interpreter's lock once, and getting it back from
# a training thread that runs Python takes up to 5 ms: row by row, a second's rows would take ten.
_ROWS_PER_STATEMENT: Final = (256, 16, 1) if sqlite3.sqlite_version_info >= (3, 32) else (16, 1)


def _insert(connection: sqlite3.Connection, head: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows in as few statements as SQLite's limit on values allows."""
    done = 0
    for size in _ROWS_PER_STATEMENT:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            row = f"({','.join('?' * len(some[0]))})"
            values = ",".join([row] * size)
            connection.execute(f"{head} VALUES {values}", [v for values in some for v in values])
            done += size


def _connect_for_writing(location: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        location, uri=location.startswith("file:"), check_same_thread=False, timeout=10
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
